package invert

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"assay/internal/doctor"
	"assay/internal/forge"
	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/remove"
	"assay/internal/repo"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// bed is a store with the pseudo-image "host" and a backend on it. Every
// patient has its own: layers that are the same but for their times would be
// one in a store, and times are compared here.
type bed struct {
	dir     string
	images  *image.Store
	backend sandbox.Backend
	host    image.Image
}

func (b *bed) open() (err error) {
	if b.dir, err = os.MkdirTemp("", "assay-invert-test-"); err != nil {
		return err
	}
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return err
	}
	b.images, err = image.Open(image.HostPath(filepath.Join(b.dir, "store")), image.Options{Volatile: true, Owner: ns.Owner()})
	if err != nil {
		return err
	}
	n, err := ns.Open(context.Background(), ns.Config{Store: b.images, Scratch: image.HostPath(filepath.Join(b.dir, "scratch"))})
	if err != nil {
		return err
	}
	b.backend = n
	o := image.HostOptions{}
	if list := os.Getenv("ASSAY_TOOLCHAINS"); list != "" {
		for t := range strings.SplitSeq(list, ":") {
			o.Toolchains = append(o.Toolchains, image.HostPath(t))
		}
	}
	b.host, err = b.images.Host(context.Background(), o)
	return err
}

func (b *bed) close() (err error) {
	if b.backend != nil {
		err = b.backend.Close()
	}
	if b.dir == "" {
		return err
	}
	return errors.Join(err, remove.Tree(b.dir))
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{}
	err := b.open()
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	var refused *doctor.Refusal
	if errors.As(err, &refused) {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// patient is a healthy environment made of testdata/NAME.txtar: a tiny project
// with what it needs, put together from this machine's toolchains. The
// archive's comment has lines "KEY: VALUE": need (a program of this machine
// that has to be there), from, user, languages, run (the suite, after ". /etc/profile"),
// tests (patterns), build.
type patient struct {
	name  string
	bed   *bed
	image image.Image
	env   *repo.Environment
	view  *image.View
	run   string

	from []source
}

// source is a directory of this machine, and where it lies in the patient.
type source struct{ dir, to string }

func names(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func admitPatient(t *testing.T, file string) (*patient, error) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := &patient{name: strings.TrimSuffix(filepath.Base(file), ".txtar")}
	p.env = &repo.Environment{Version: 1, Name: p.name, Workdir: "/app", User: "root"}
	for l := range strings.Lines(string(a.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(l), ": ")
		switch key {
		case "need":
			if _, err := os.Stat(value); err != nil {
				return nil, fmt.Errorf("needs %s", value)
			}
		case "from": // VARIABLE DIR: what a variable of this process names comes to lie there
			name, to, _ := strings.Cut(value, " ")
			if os.Getenv(name) == "" {
				return nil, fmt.Errorf("%s names no directory", name)
			}
			p.from = append(p.from, source{os.Getenv(name), to})
		case "user":
			p.env.User = value
		case "languages":
			p.env.Languages = strings.Fields(value)
		case "tests":
			p.env.Suite.TestFiles = strings.Fields(value)
		case "run":
			p.run = ". /etc/profile; " + value
		}
	}
	p.env.Suite.Commands = []repo.Command{{Command: checks.Command{Name: "unit", Run: p.run}}}
	p.bed = newBed(t)
	if err := p.grow(t, a); errors.Is(err, errAlone) {
		return nil, err
	} else if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return p, nil
}

var errAlone = errors.New("sandboxes of this user have no user but root")

// grow puts the archive's files into a sandbox, runs its make.sh there, and
// keeps what came of it as a layer.
func (p *patient) grow(t *testing.T, a *txtar.Archive) error {
	box, err := p.bed.backend.Create(t.Context(), sandbox.Spec{Image: p.bed.host, UID: p.uid()})
	if err != nil {
		return err
	}
	defer box.Close()
	if err := box.Put(t.Context(), "/", bytes.NewReader(tarOf(a))); err != nil {
		return err
	}
	for _, f := range p.from {
		pr, pw := io.Pipe()
		go func() {
			w := tar.NewWriter(pw)
			pw.CloseWithError(errors.Join(w.AddFS(os.DirFS(f.dir)), w.Close()))
		}()
		if err := box.Put(t.Context(), image.Path(f.to), pr); err != nil {
			return err
		}
	}
	if !NewGround(nil, p.env).Root() {
		r, err := sandbox.Exec(t.Context(), box, sandbox.Command{Args: []string{"id", "-u"}, User: p.env.User}, sandbox.ExecOptions{Timeout: time.Minute})
		if err != nil || r.Exit.Code != 0 || strings.TrimSpace(string(r.Stdout)) == "0" {
			return fmt.Errorf("%w: %v", errAlone, err)
		}
	}
	r, err := sandbox.Exec(t.Context(), box, sandbox.Command{Args: []string{"/bin/sh", "-exc", "[ ! -e /make.sh ] || sh -ex /make.sh; rm -f /make.sh"}}, sandbox.ExecOptions{Timeout: 20 * time.Minute})
	if err != nil || r.Exit.Code != 0 {
		return fmt.Errorf("make.sh: %v %d\n%s%s", err, r.Exit.Code, r.Stdout, r.Stderr)
	}
	snap, err := box.Snapshot(t.Context())
	if err != nil {
		return err
	}
	layer, err := p.bed.backend.Commit(t.Context(), snap)
	if err != nil {
		return err
	}
	p.image = p.bed.host
	p.image.Layers = append(slices.Clone(p.bed.host.Layers), layer)
	p.env.Layers = p.image.Layers
	p.view, err = p.bed.images.View(p.image.Layers)
	return err
}

// tarOf is a tree for a sandbox: programs are what begins with "#!".
func tarOf(a *txtar.Archive) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range a.Files {
		mode := int64(0o644)
		if bytes.HasPrefix(f.Data, []byte("#!")) {
			mode = 0o755
		}
		h := &tar.Header{Name: f.Name, Mode: mode, Size: int64(len(f.Data)), ModTime: time.Unix(1_700_000_000, 0)}
		if err := errors.Join(w.WriteHeader(h), func() error { _, err := w.Write(f.Data); return err }()); err != nil {
			panic(err) // into memory
		}
	}
	w.Close()
	return b.Bytes()
}

// suite runs the suite in a sandbox and reports whether it passed.
func (p *patient) suite(ctx context.Context, box sandbox.Sandbox) (bool, string, error) {
	r, err := sandbox.Exec(ctx, box, sandbox.Command{Args: []string{"/bin/sh", "-c", p.run}, Dir: image.Path(p.env.Workdir), User: p.env.User},
		sandbox.ExecOptions{Timeout: 6 * time.Minute})
	if err != nil {
		return false, "", err
	}
	return r.Exit.Code == 0 && !r.TimedOut, tail(string(r.Stdout)+string(r.Stderr), 600), nil
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// uid is the mode that has the patient's user.
func (p *patient) uid() sandbox.UIDMode {
	modes := p.bed.backend.Capabilities().UIDModes
	if NewGround(nil, p.env).Root() || len(modes) < 2 {
		return sandbox.UIDAuto
	}
	return modes[1]
}

func (p *patient) open(ctx context.Context, extra ...image.LayerID) (sandbox.Sandbox, error) {
	return p.bed.backend.Create(ctx, sandbox.Spec{Image: p.image, Extra: extra, UID: p.uid()})
}

// outcome is what became of one operator at one site.
type outcome struct {
	bit  bool
	says string // what the suite said at its end
}

// try breaks a patient at a site and mends it again: in the same sandbox, as
// an agent would, and in fresh ones by the record alone.
func (p *patient) try(ctx context.Context, g *Ground, o Operator, s Site) (outcome, error) {
	f, err := o.Apply(g, s, chance(o, s))
	if err != nil {
		return outcome{}, err
	}
	inverse, err := forge.Invert(f.Delta, p.view)
	if err != nil {
		return outcome{}, err
	}
	broken, err := forge.Layer(ctx, p.bed.images, p.image.Layers, p.view, f.Delta)
	if err != nil {
		return outcome{}, err
	}
	if broken == "" {
		return outcome{}, errors.New("it changes nothing")
	}
	mended, err := forge.Layer(ctx, p.bed.images, append(slices.Clone(p.image.Layers), broken), p.view, inverse)
	if err != nil {
		return outcome{}, fmt.Errorf("inverse: %w", err)
	}
	if err := p.identical(broken, mended); err != nil {
		return outcome{}, err
	}
	if err := p.replays(ctx, f.Delta, broken); err != nil {
		return outcome{}, err
	}
	box, err := p.open(ctx, broken)
	if err != nil {
		return outcome{}, err
	}
	defer box.Close()
	ok, says, err := p.suite(ctx, box)
	if err != nil || ok {
		return outcome{says: says}, err
	}
	// What the failed run has left behind must not stand in the way; its
	// processes an agent would end, and a grader never sees.
	if err := box.Kill(ctx); err != nil {
		return outcome{}, err
	}
	if err := forge.Replay(ctx, box, inverse, p.view); err != nil {
		return outcome{}, err
	}
	if err := touch(ctx, box, inverse); err != nil {
		return outcome{}, err
	}
	if ok, again, err := p.suite(ctx, box); err != nil || !ok {
		return outcome{}, fmt.Errorf("mended in place, the suite fails: %v\n%s", err, again)
	}
	fresh, err := p.open(ctx, broken, mended)
	if err != nil {
		return outcome{}, err
	}
	defer fresh.Close()
	if ok, again, err := p.suite(ctx, fresh); err != nil || !ok {
		return outcome{}, fmt.Errorf("mended in a fresh copy, the suite fails: %v\n%s", err, again)
	}
	return outcome{bit: true, says: says}, nil
}

// touch gives what was mended the time of now, as an editor does: what the
// failed run has compiled is newer than the healthy files ever were.
func touch(ctx context.Context, box sandbox.Sandbox, d forge.Delta) error {
	args := []string{"touch", "-c", "-h", "--"}
	for _, e := range d {
		if e.Type == image.TypeFile {
			args = append(args, e.Path)
		}
	}
	if len(args) == 4 {
		return nil
	}
	r, err := sandbox.Exec(ctx, box, sandbox.Command{Args: args}, sandbox.ExecOptions{Timeout: time.Minute})
	if err == nil && r.Exit.Code != 0 {
		err = fmt.Errorf("touch: %s", r.Stderr)
	}
	return err
}

// identical compares the mended tree with the healthy one: path, type, mode,
// owner, link, digest, and time.
func (p *patient) identical(broken, mended image.LayerID) error {
	v, err := p.bed.images.View(append(slices.Clone(p.image.Layers), broken, mended))
	if err != nil {
		return err
	}
	diff, err := forge.Differ(p.view, v, []string{"/"}, true, 10)
	if err != nil {
		return err
	}
	// Layers of equal content are one, whatever times they came with: those of
	// directories may be another patient's.
	diff = slices.DeleteFunc(diff, func(at string) bool {
		e, err := p.view.Lstat(at)
		return err == nil && e.IsDir()
	})
	if plain, err := forge.Differ(p.view, v, []string{"/"}, false, 10); err != nil || len(plain) > 0 {
		return fmt.Errorf("after the inverse these differ: %q %v", plain, err)
	}
	if len(diff) > 0 {
		return fmt.Errorf("after the inverse these differ: %q", diff)
	}
	return nil
}

// replays makes the broken tree again of what a record keeps.
func (p *patient) replays(ctx context.Context, d forge.Delta, want image.LayerID) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	var again forge.Delta
	if err := json.Unmarshal(b, &again); err != nil {
		return err
	}
	got, err := forge.Layer(ctx, p.bed.images, p.image.Layers, p.view, again)
	if err != nil || got != want {
		return fmt.Errorf("replayed from its record, the layer is %s, not %s: %v", got.Short(), want.Short(), err)
	}
	return nil
}

// chance is the same for the same operator and site in every run.
func chance(o Operator, s Site) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, o.Name, s)
	return rand.New(rand.NewPCG(h.Sum64(), 8))
}

// What one operator does with the lists that a ground gives is no other's
// business: all of them find the same sites, whoever looked before.
func TestGroundIsNeverChanged(t *testing.T) {
	p, err := admitPatient(t, "testdata/deploy.txtar")
	if err != nil {
		t.Skip(err)
	}
	one := NewGround(p.view, p.env)
	for _, o := range All() {
		o.Sites(one)
	}
	for _, o := range All() {
		if again, fresh := o.Sites(one), o.Sites(NewGround(p.view, p.env)); !slices.Equal(again, fresh) {
			t.Errorf("%s: on a ground that others looked at it finds %v, not %v", o.Name, again, fresh)
		}
	}
}

// Operators are written down wholly, and no two share a name.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range All() {
		if err := o.check(); err != nil {
			t.Error(err)
		}
		if seen[o.Name] {
			t.Errorf("two operators are called %s", o.Name)
		}
		seen[o.Name] = true
	}
}
