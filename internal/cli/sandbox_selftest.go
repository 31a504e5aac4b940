package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strings"

	"assay/internal/egress"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/hostile"
	"assay/internal/sandbox/ns"
)

type sandboxSelftestCmd struct {
	Hostile bool   `help:"Make the attacks."`
	List    bool   `help:"List the attacks and the walls that hold them, and make none."`
	Only    string `placeholder:"PATTERN" help:"Only attacks whose name matches, e.g. 'get *'."`
	UID     string `name:"uid" default:"single" enum:"single,root,subid" placeholder:"MODE" help:"Users of the sandboxes that are attacked: single, root (as root), subid (with subordinate ids)."`
	Image   string `default:"host" placeholder:"NAME" help:"Image to attack from; one without its own C library needs a statically linked assay."`
}

func (sandboxSelftestCmd) Help() string {
	return `Attacks the sandbox from inside and through the trees and archives that are copied to and from it, once with
every wall up and once with those down that hold the attack, the latter inside of another sandbox whose limits
stay up. With --json one object an attack: {"attack":…,"class":…,"contained":true,"bites":true,…}.
"bites" is true if the attack works with the walls down, "kernel" if the kernel refuses it even then, false if
neither could be shown. What a sandbox does not protect against is in docs/trust.md.

Examples:
  assay sandbox selftest --hostile
  assay --json sandbox selftest --hostile --only 'fork*'
  sudo assay sandbox selftest --hostile --uid root
  assay sandbox selftest --list

Exit status: 0 all contained, 1 the attacks could not be made, 2 usage, 4 an attack was not contained.`
}

func (c *sandboxSelftestCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	match := func(name string) bool { ok, _ := path.Match(c.Only, name); return ok || c.Only == "" }
	if _, err := path.Match(c.Only, ""); err != nil {
		return usagef("--only %q: %w", c.Only, err)
	}
	made, open := 0, 0
	var emitErr error
	show := func(r hostile.Result) {
		made++
		if !r.Contained && !c.List {
			open++
		}
		if g.JSON {
			emitErr = errors.Join(emitErr, a.emit("attack", r))
			return
		}
		mark := "ok"
		if !r.Contained && !c.List {
			mark = "HOLE"
		}
		if c.List {
			_, err := fmt.Fprintf(a.Stdout, "%-15s %-40s %s\n", r.Class, r.Attack, r.Walls)
			emitErr = errors.Join(emitErr, err)
			return
		}
		_, err := fmt.Fprintf(a.Stdout, "%-4s  %-15s %-40s bites: %-7v %.120q\n", mark, r.Class, r.Attack, r.Bites, r.Detail)
		emitErr = errors.Join(emitErr, err)
	}
	if c.List {
		for _, r := range hostile.List() {
			if match(r.Attack) {
				show(r)
			}
		}
		return emitErr
	}
	if !c.Hostile {
		return usagef("say --hostile to make the attacks, or --list to see them")
	}
	if err := c.attack(ctx, a, g, match, show); err != nil {
		return err
	}
	switch {
	case emitErr != nil:
		return emitErr
	case made == 0:
		return usagef("no attack matches %q: see --list", c.Only)
	case open > 0:
		return gate(fmt.Errorf("%d of %d attacks were not contained", open, made))
	}
	a.say("%d attacks, all contained", made)
	return nil
}

// attack works in a directory of its own beside the layers.
func (c *sandboxSelftestCmd) attack(ctx context.Context, a *app, g *grammar, match func(string) bool, show func(hostile.Result)) error {
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	img, err := r.resolve(ctx, c.Image)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(string(r.images.Root()), "selftest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	o := hostile.Options{Dir: image.HostPath(dir), Image: img, Match: match, UID: sandbox.UIDMode(c.UID),
		Open: func(ctx context.Context, _ image.HostPath, without sandbox.Defences) (sandbox.Backend, error) {
			return ns.Open(ctx, ns.Config{Store: r.images, Without: without})
		}}
	return hostile.Run(ctx, o, show)
}

// openWithout opens a backend for an attack within another sandbox.
func openWithout(ctx context.Context, dir image.HostPath, without sandbox.Defences) (sandbox.Backend, error) {
	st, err := image.Open(image.HostPath(filepath.Join(string(dir), "store")), image.Options{Owner: ns.Owner(), Volatile: true})
	if err != nil {
		return nil, err
	}
	return ns.Open(ctx, ns.Config{Store: st, Without: without})
}

// arenaHost is what an attack within another sandbox needs to be its host.
func arenaHost() hostile.Host {
	return hostile.Host{Open: openWithout, Gate: func(rules []string, names hostile.Lookup) (sandbox.Egress, error) {
		parsed, err := egress.ParseRules(rules, false)
		if err != nil {
			return nil, err
		}
		return egress.New(egress.Config{Rules: parsed, Resolver: table(names)}), nil
	}}
}

// table is a resolver that asks nobody.
type table func(name string) []netip.Addr

func (t table) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if found := t(strings.TrimSuffix(host, ".")); len(found) > 0 {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}
