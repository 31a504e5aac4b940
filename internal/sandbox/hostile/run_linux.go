package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// attack is one entry of the list.
type attack struct {
	name, class string
	off         sandbox.Defences // walls of ours that hold it; 0: none but the kernel
	naked       bool             // its wall is the sandbox itself: it bites without one
	arena       bool             // it aims at something that must be in a namespace of the test
	kernelToo   bool             // kernels and settings exist that refuse it without our wall
	plain       bool             // it needs nothing but a sandbox, which others like it can have beside it
	race        bool             // it wins at times only
	loose       sandbox.Defences // more walls that are down in its arena, whose users are those of the sandbox
	own         bool             // this program belongs to the arena in it
	try         func(f *field) (worked bool, detail string, err error)
	spec        func(*sandbox.Spec)
	way         func(f *field) (sandbox.Egress, error) // out of the sandbox; nil: there is none
}

// List names the attacks without running any.
func List() []Result {
	var out []Result
	for _, a := range attacks() {
		out = append(out, Result{Attack: a.name, Class: a.class, Walls: a.walls()})
	}
	return out
}

// walls that hold it, by name.
func (a attack) walls() string {
	if a.naked {
		return "the sandbox as a whole"
	}
	return a.off.String()
}

// outerWalls are down in the sandbox around the switch-offs: they are what a
// sandbox within a sandbox needs, and what makes its root able to set bait.
// Limits and namespaces stay.
const outerWalls = sandbox.DefNestedNS | sandbox.DefMaskProc | sandbox.DefReadOnlyProc | sandbox.DefSeccomp | sandbox.DefCaps |
	sandbox.DefCore | sandbox.DefNoNewPrivs // these two are inherited

// patience is for one attack on a busy machine.
const patience = 60 * time.Second

// Run makes every attack and reports each.
func Run(ctx context.Context, o Options, report func(Result)) error {
	b, err := o.Open(ctx, o.Dir, 0)
	if err != nil {
		return err
	}
	defer b.Close()
	outer, err := o.Open(ctx, o.Dir, outerWalls)
	if err != nil {
		return err
	}
	defer outer.Close()
	// Races run in slow motion, with their walls and without: both sides have the same chance.
	slow, err := o.Open(ctx, o.Dir, sandbox.DefHaste)
	if err != nil {
		return err
	}
	defer slow.Close()
	together := newBatches(func(how string, as []attack) map[string]verdict { return inArenas(ctx, o, outer, as, how) }, o.Match)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	slots := make(chan struct{}, atOnce)
	results := make(chan chan Result, len(attacks()))
	wg.Go(func() {
		defer close(results)
		for _, a := range attacks() {
			if o.Match != nil && !o.Match(a.name) {
				continue
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			r := make(chan Result, 1)
			results <- r
			wg.Go(func() {
				with := b
				if a.race {
					with = slow
				}
				r <- a.judge(ctx, o, with, outer, together)
				<-slots
			})
		}
	})
	for r := range results { // in the order of the list
		report(<-r)
		if ctx.Err() != nil {
			break
		}
	}
	return context.Cause(ctx)
}

// atOnce attacks run side by side: each waits for another sandbox most of its time.
const atOnce = 3

// verdict is what one run of an attack came to.
type verdict struct {
	Attack string `json:"attack,omitempty"`
	Worked bool   `json:"worked"`
	Detail string `json:"detail"`
	Rounds int    `json:"rounds,omitempty"` // of a race
	Err    string `json:"err,omitempty"`    // it could not be made
}

// judge runs an attack with all walls, and without those that hold it.
func (a attack) judge(ctx context.Context, o Options, b, outer sandbox.Backend, together *batches) Result {
	r := Result{Attack: a.name, Class: a.class, Walls: a.walls(), Bites: false}
	var bare verdict
	switch {
	case a.naked:
		bare = inArena(ctx, o, outer, a, "naked")
	case a.plain:
		bare = together.verdict(a)
	case a.off != 0:
		bare = inArena(ctx, o, outer, a, "off")
	}
	if a.off == 0 && !a.naked && !a.plain || a.kernelToo && !bare.Worked && bare.Err == "" {
		bare = inArena(ctx, o, outer, a, "all")
		if !bare.Worked && bare.Err == "" {
			r.Bites = "kernel"
		}
	}
	if a.plain && a.off == 0 && !bare.Worked && bare.Err == "" {
		r.Bites = "kernel" // all walls were down
	}
	if bare.Worked {
		r.Bites = true
	}
	var on verdict
	if a.arena {
		on = inArena(ctx, o, outer, a, "on")
	} else {
		on = a.run(ctx, b, o.Image, string(o.Dir), 0, surroundings{won: bare.Rounds, uid: o.UID})
	}
	r.Contained = !on.Worked && on.Err == ""
	r.Detail = strings.Join(strings.Fields(on.Detail+" "+on.Err), " ")
	r.Without = strings.Join(strings.Fields(bare.Detail+" "+bare.Err), " ")
	return r
}

// inArena runs an attack in a sandbox within a sandbox.
func inArena(ctx context.Context, o Options, outer sandbox.Backend, a attack, how string) verdict {
	return inArenas(ctx, o, outer, []attack{a}, how)[a.name]
}

// inArenas runs attacks that have the same walls down in one.
func inArenas(ctx context.Context, o Options, outer sandbox.Backend, as []attack, how string) map[string]verdict {
	a, all := as[0], map[string]verdict{}
	fail := func(err error) map[string]verdict {
		all[a.name] = verdict{Err: err.Error()}
		return all
	}
	spec, err := specFor(o.Image)
	if err != nil {
		return fail(err)
	}
	spec.Hostname = arenaName
	if a.loose != 0 {
		spec.UID = o.UID
		if outer, err = o.Open(ctx, o.Dir, outerWalls|a.loose); err != nil {
			return fail(err)
		}
		defer outer.Close()
	}
	spec.Limits = sandbox.Limits{DiskBytes: 256 << 20, Pids: 1024, MemBytes: 1 << 30}
	s, err := outer.Create(ctx, spec)
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	args := []string{marker, "arena", how}
	for _, a := range as {
		args = append(args, a.name)
	}
	r, err := sandbox.Exec(ctx, s, sandbox.Command{Args: args, Env: attackerEnv()}, sandbox.ExecOptions{Timeout: patience})
	if err != nil {
		return fail(err)
	}
	for d := json.NewDecoder(bytes.NewReader(r.Stdout)); ; {
		var v verdict
		if err := d.Decode(&v); err != nil {
			break
		}
		if v.Attack == "" {
			v.Attack = a.name
		}
		all[v.Attack] = v
	}
	if len(all) == 0 {
		return fail(fmt.Errorf("the arena ended with %d, timed out %v: %.300s %.300s", r.Exit.Code, r.TimedOut, r.Stdout, r.Stderr))
	}
	return all
}

const arenaName = "bait-host"

func attackerEnv() []string {
	return []string{"GORACE=atexit_sleep_ms=0", "GOMAXPROCS=2", "PATH=/usr/bin:/bin"}
}

// specFor mounts this program as the attacker.
func specFor(img image.Image) (sandbox.Spec, error) {
	exe, err := os.Executable()
	return sandbox.Spec{Image: img, Mounts: []sandbox.Mount{{Host: image.HostPath(exe), Target: marker, ReadOnly: true}},
		Limits: sandbox.Limits{DiskBytes: 48 << 20, Inodes: 6000, Pids: 96, OpenFiles: 256}}, err
}

// field is where an attack takes place.
type field struct {
	ctx   context.Context
	b     sandbox.Backend
	s     sandbox.Sandbox // nil: there is none
	spec  sandbox.Spec
	a     attack
	dir   string // the host's, with bait in it
	off   sandbox.Defences
	naked bool
	round int // of a race
	surroundings
}

// surroundings are what only some attacks look at.
type surroundings struct {
	gate  Gate
	found *atomic.Int64 // who came to an arena's listeners
	uid   sandbox.UIDMode
	won   int // the round in which a race was won without walls
}

const bait = "the-secret-of-the-host"

// run makes the attack on a fresh sandbox and sees that nobody else suffered.
func (a attack) run(ctx context.Context, b sandbox.Backend, img image.Image, dir string, off sandbox.Defences, around surroundings) verdict {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f := &field{ctx: ctx, b: b, a: a, off: off, surroundings: around}
	var err error
	if f.spec, err = specFor(img); err == nil {
		f.spec.UID = around.uid
		f.dir, err = baitDir(dir)
	}
	if err != nil {
		return verdict{Err: err.Error()}
	}
	defer os.RemoveAll(f.dir)
	if a.spec != nil {
		a.spec(&f.spec)
	}
	for i, m := range f.spec.Mounts {
		f.spec.Mounts[i].Host = image.HostPath(strings.Replace(string(m.Host), "BAIT", f.dir, 1))
	}
	if a.way != nil {
		f.spec.Network = sandbox.NetAllowlist
		if f.spec.Egress, err = a.way(f); err != nil {
			return verdict{Err: err.Error()}
		}
	}
	if f.s, err = b.Create(ctx, f.spec); err != nil {
		return verdict{Err: err.Error()}
	}
	if off == 0 {
		defer f.s.Close() // else the outer sandbox ends it: what an attack brought to a halt cannot be closed
	}
	worked, detail, err := a.try(f)
	if err != nil {
		return verdict{Err: err.Error(), Detail: detail}
	}
	if !worked {
		if err := f.wellAfter(); err != nil {
			return verdict{Worked: true, Detail: detail + "; afterwards: " + err.Error()}
		}
	}
	return verdict{Worked: worked, Detail: detail, Rounds: f.round}
}

// wellAfter sees that the sandbox can go on, and another one too.
func (f *field) wellAfter() error {
	if err := f.s.Kill(f.ctx); err != nil {
		return fmt.Errorf("the sandbox was lost: %w", err)
	}
	other, err := f.b.Create(f.ctx, f.spec)
	if err != nil {
		return fmt.Errorf("no other sandbox can be made: %w", err)
	}
	defer other.Close()
	for _, s := range []sandbox.Sandbox{f.s, other} {
		r, err := sandbox.Exec(f.ctx, s, sandbox.Command{Args: []string{marker, "alive"}, Env: attackerEnv()}, sandbox.ExecOptions{Timeout: patience})
		if err != nil || string(r.Stdout) != "alive\n" {
			return fmt.Errorf("nothing runs any more: %w, %.200q %.200q", err, r.Stdout, r.Stderr)
		}
	}
	return nil
}

func baitDir(in string) (string, error) {
	dir, err := os.MkdirTemp(in, "bait-")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o777), os.WriteFile(filepath.Join(dir, "secret"), []byte(bait), 0o666),
			os.Chmod(filepath.Join(dir, "secret"), 0o666))
	}
	return dir, err
}

// inside runs the attacker in the sandbox to its end.
func inside(f *field) (bool, string, error) { return f.inside(f.a.name) }

func (f *field) inside(args ...string) (bool, string, error) {
	cmd := sandbox.Command{Args: append([]string{marker}, args...), Env: attackerEnv()}
	r, err := sandbox.Exec(f.ctx, f.s, cmd, sandbox.ExecOptions{Timeout: patience})
	if errors.Is(err, sandbox.ErrLost) {
		return true, "the sandbox was lost", nil
	}
	if err != nil {
		return false, "", err
	}
	return parse(string(r.Stdout), string(r.Stderr), r.Exit.Code)
}

func parse(out, errs string, code int) (bool, string, error) {
	if d, ok := strings.CutPrefix(out, "worked"); ok {
		return true, strings.TrimSpace(d), nil
	}
	if d, ok := strings.CutPrefix(out, "refused: "); ok {
		return false, strings.TrimSpace(d), nil
	}
	return false, "", fmt.Errorf("the attacker ended with %d: %.300q %.300q", code, out, errs)
}

// begin starts an attacker that goes on until stop.
func (f *field) begin(args ...string) (stop func(), err error) {
	p, err := f.s.Start(f.ctx, sandbox.Command{Args: append([]string{marker}, args...), Env: attackerEnv()})
	if err != nil {
		return nil, err
	}
	var ready [6]byte
	if _, err := p.Stdout().Read(ready[:]); err != nil {
		p.Close()
		return nil, fmt.Errorf("the attacker %q did not begin: %w", args, err)
	}
	return func() { p.Close() }, nil
}
