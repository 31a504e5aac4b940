package cli

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/renameio/v2"

	"assay/internal/egress"
	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/job"
	"assay/internal/mirrors"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

// builder makes images from Dockerfiles, with a network for their RUNs: by
// default an allow-list of the servers that this machine's own package managers
// use, through the proxy that this machine uses.
type builder struct {
	r       *rooms
	network sandbox.Network // empty: an allow-list where the backend has one, else none
	allow   []string        // further rules
	inherit bool            // RUN gets this machine's own settings
	records string          // directory that keeps the record of each build for a job; empty: none
	say     func(format string, args ...any)
	host    mirrors.Host

	once     sync.Once
	told     sync.Once // of what is not inherited
	settings *mirrors.Settings
	roots    *x509.CertPool
	err      error
}

// builder is made from the flags and the configuration; network and allow are a
// command's own.
func (a *app) builder(g *grammar, r *rooms, network string, allow []string) (*builder, error) {
	c, err := a.config()
	if err != nil {
		return nil, err
	}
	b := &builder{r: r, network: sandbox.Network(c.Build.Network), allow: slices.Concat(c.Build.AllowHosts, allow),
		inherit: c.Build.InheritMirrors, say: a.say, host: a.machine()}
	if network != "" {
		b.network = sandbox.Network(network)
	}
	if g.InheritMirrors != nil {
		b.inherit = *g.InheritMirrors
	}
	if _, err := egress.ParseRules(b.allow, true); err != nil {
		return nil, usage(err)
	}
	return b, nil
}

// job builds for a job.
func (b *builder) job(ctx context.Context, q job.BuildRequest) (image.Image, error) {
	o := dockerfile.Options{Dir: image.HostPath(q.Dir), Resolve: q.Resolve, Dockerfile: q.Dockerfile, Target: q.Target, BuildArgs: q.Args, UID: q.UID}
	o.Base, o.Record = q.Base, &dockerfile.Record{}
	im, err := b.build(ctx, o)
	if err != nil || b.records == "" {
		return im, err
	}
	return im, b.keep(im, o.Record)
}

// keep writes what an image was made of beside the job's other states.
func (b *builder) keep(im image.Image, r *dockerfile.Record) error {
	j, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.records, 0o755); err != nil {
		return fmt.Errorf("keep the record of a build: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(b.records, "build-"+image.LayerID(im.ID).Short()+".json"), append(j, '\n'), 0o644); err != nil {
		return fmt.Errorf("keep the record of a build: %w", err)
	}
	return nil
}

// build adds to the options what every build has, and builds.
func (b *builder) build(ctx context.Context, o dockerfile.Options) (_ image.Image, err error) {
	o.Store, o.Backend = b.r.images, b.r.backend
	if o.Resolve == nil {
		o.Resolve = b.r.resolve
	}
	if o.Record == nil {
		o.Record = &dockerfile.Record{}
	}
	if m := b.r.backend.Capabilities().UIDModes; o.UID == "" && len(m) > 0 {
		o.UID = m[0] // so that the record says it
	}
	if o.Network, err = b.mode(); err != nil {
		return image.Image{}, err
	}
	if o.Network == sandbox.NetNone {
		im, err := dockerfile.Build(ctx, o)
		var run *dockerfile.RunError
		if b.network == "" && errors.As(err, &run) {
			err = fmt.Errorf("%w\nbuilds by backend %s have no network", err, b.r.backend.Capabilities().Name)
		}
		return im, err
	}
	w, err := b.open(&o)
	if err != nil {
		return image.Image{}, err
	}
	im, err := dockerfile.Build(ctx, o)
	err = errors.Join(w.explain(err), w.Close())
	o.Record.Allowed = w.allowed
	for _, h := range w.ledger.Hosts() {
		o.Record.Reached = append(o.Record.Reached, dockerfile.Reached(h))
	}
	return im, err
}

// mode is the network of the backend for what was asked for.
func (b *builder) mode() (sandbox.Network, error) {
	has := b.r.backend.Capabilities().Networks
	switch {
	case b.network == "" && !slices.Contains(has, sandbox.NetAllowlist):
		return sandbox.NetNone, nil
	case b.network == "":
		return sandbox.NetAllowlist, nil
	case !slices.Contains(has, b.network):
		return "", usagef("network %s: backend %s does not have it; it has %s", b.network, b.r.backend.Capabilities().Name, list(has))
	}
	return b.network, nil
}

func list(all []sandbox.Network) string {
	var s []string
	for _, n := range all {
		s = append(s, string(n))
	}
	return strings.Join(s, ", ")
}

// buildWay is the way out of one build, and what its RUNs see of this machine.
type buildWay struct {
	*egress.Gate
	ledger  *egress.Ledger
	allowed []string
	hint    string
	files   io.Closer // nil: nothing is shown
}

// open makes the way out and fills the options with it.
func (b *builder) open(o *dockerfile.Options) (*buildWay, error) {
	s, err := b.read()
	if err != nil {
		return nil, err
	}
	w := &buildWay{ledger: &egress.Ledger{}}
	up, err := upstream(s, b.roots)
	if err != nil {
		return nil, err
	}
	rules, local, err := b.rules(s, w)
	if err != nil {
		return nil, err
	}
	w.Gate = egress.New(egress.Config{Rules: rules, All: o.Network == sandbox.NetFull, Ledger: w.ledger, Upstream: up, Roots: b.roots,
		Link: interfaces().Link, Rewrite: func(u *url.URL) *url.URL { return s.AptRewrite(u, b.inherit) }})
	o.Egress, o.Authorities = w.Gate, b.roots
	for _, port := range local {
		o.RunRelays = append(o.RunRelays, sandbox.Relay{Port: port, Handle: w.toThisMachine(port)})
	}
	if err := b.bring(s, o, w); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// upstream is this machine's way out, and that of package managers which have
// one of their own.
func upstream(s *mirrors.Settings, roots *x509.CertPool) (*egress.Upstream, error) {
	up, err := egress.NewUpstream(s.Proxy.HTTP, s.Proxy.HTTPS, s.Proxy.No)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, s.Proxy.From)
	}
	if up == nil {
		up = &egress.Upstream{}
	}
	up.Roots = roots
	for _, m := range s.Mirrors {
		p, ok := s.Own[m.Manager]
		if !ok || slices.ContainsFunc(s.Mirrors, func(o mirrors.Mirror) bool { return o.Host == m.Host && s.Own[o.Manager] != p }) {
			continue // a server of several managers goes the way of the rest
		}
		if err := up.Through(m.Host, p.HTTP, p.HTTPS, p.No); err != nil {
			return nil, fmt.Errorf("%w (%s)", err, p.From)
		}
	}
	return up, nil
}

// read reads this machine's settings once. What cannot be read costs the builds
// their mirrors, aloud, unless somebody asked for them.
func (b *builder) read() (*mirrors.Settings, error) {
	b.once.Do(func() {
		b.settings, b.err = mirrors.Read(b.host)
		if b.err != nil && !b.inherit {
			b.say("warning: builds reach no package mirror: %v", b.err)
			b.settings, b.err = &mirrors.Settings{}, nil
		}
		if b.err == nil {
			b.roots = b.settings.Roots()
		}
	})
	return b.settings, b.err
}

// rules are those for this machine's servers and those that were asked for,
// and the ports at which this machine itself is among them.
func (b *builder) rules(s *mirrors.Settings, w *buildWay) (rules []egress.Rule, local []int, err error) {
	here := func(t mirrors.Target) {
		if t.Local() && t.Port != sandbox.ProxyPort && !slices.Contains(local, t.Port) {
			local = append(local, t.Port)
		}
	}
	for _, t := range s.Targets() {
		r, err := egress.ParseRule(t.String() + "@private")
		if err != nil {
			b.say("warning: builds do not reach a mirror: %v", err)
			continue
		}
		rules, w.allowed = append(rules, r), append(w.allowed, r.String())
		here(t)
	}
	more, err := egress.ParseRules(b.allow, true)
	if err != nil {
		return nil, nil, usage(err)
	}
	for _, r := range more {
		rules, w.allowed = append(rules, r), append(w.allowed, r.String())
		name := r.Name
		if r.Prefix.IsSingleIP() {
			name = r.Prefix.Addr().String()
		}
		if r.Port != 0 && r.Private {
			here(mirrors.Target{Host: name, Port: int(r.Port)})
		}
	}
	return rules, local, nil
}

// toThisMachine leads a port of the sandbox's loopback to the same one of this
// machine: what a program calls localhost never goes through a proxy.
func (w *buildWay) toThisMachine(port int) func(context.Context, net.Conn) {
	return func(ctx context.Context, c net.Conn) {
		t, err := egress.ParseTarget("localhost", uint16(port))
		if err != nil { // it has been a rule's
			c.Close()
			return
		}
		out, err := w.Connect(ctx, egress.ViaTCP, t)
		if err != nil {
			t, _ = egress.ParseTarget("127.0.0.1", uint16(port))
			out, err = w.Connect(ctx, egress.ViaTCP, t)
		}
		if err != nil {
			c.Close()
			return
		}
		out.Join(ctx, c)
	}
}

// bring lays what RUN is to know of this machine into it: its settings, if it
// inherits them, and the way out for those programs that do not read
// http_proxy. The files lie in memory: some hold credentials.
func (b *builder) bring(s *mirrors.Settings, o *dockerfile.Options, w *buildWay) error {
	host, port := "127.0.0.1", strconv.Itoa(sandbox.ProxyPort)
	if o.Network == sandbox.NetFull {
		host, port = "", ""
	}
	left := s.LeftOut
	if !b.inherit {
		w.hint = "; where this machine has a mirror, --inherit-mirrors tells RUN of it"
		s, left = &mirrors.Settings{}, nil
	}
	in := s.Inherit(host, port)
	if len(in.Files) == 0 && len(in.Env) == 0 {
		return nil
	}
	p, err := b.r.images.PrivateInMemory()
	if err != nil {
		return fmt.Errorf("settings for RUN: %w", err)
	}
	w.files = p
	// The directory itself is nobody else's; what is shown is one in it, which
	// every user inside may read.
	const name = "host"
	if err := os.Mkdir(string(p.Path(name)), 0o755); err != nil {
		return fmt.Errorf("settings for RUN: %w", err)
	}
	owner := -1
	if o := ns.Owner(); o != nil {
		owner = o.UID
	}
	if err := in.Write(string(p.Path(name)), owner); err != nil {
		return err
	}
	for _, m := range in.Mounts {
		at := name
		if m.Name != "" {
			at += "/" + m.Name
		}
		o.RunMounts = append(o.RunMounts, sandbox.Mount{Host: p.Path(at), Target: image.Path(m.Target), ReadOnly: true})
	}
	o.RunEnv = in.Env
	for _, i := range in.Items {
		o.Inherited = append(o.Inherited, dockerfile.Inherited(i))
	}
	b.told.Do(func() { // not again for every image of a job
		for _, l := range left {
			b.say("not inherited: %s", l)
		}
	})
	return nil
}

// Close ends the way out and removes what was inherited.
func (w *buildWay) Close() error {
	err := w.Gate.Close()
	if w.files != nil {
		err = errors.Join(err, w.files.Close())
	}
	return err
}

// explain adds to a failed step what was refused to the build, which its
// programs often tell badly.
func (w *buildWay) explain(err error) error {
	if err == nil {
		return nil
	}
	var refused []string
	for _, h := range w.ledger.Hosts() {
		if h.Refused > 0 && h.Port != 0 && len(refused) < 10 { // names that are only asked for are asked by habit
			refused = append(refused, net.JoinHostPort(h.Host, strconv.Itoa(int(h.Port)))+" ("+h.Why+")")
		}
	}
	for _, h := range w.ledger.Hosts() {
		if h.Refused > 0 && h.Port == 0 && len(refused) == 0 {
			refused = append(refused, h.Host)
		}
	}
	if len(refused) == 0 {
		return err
	}
	return fmt.Errorf("%w\nthe allow-list of builds refused %s; --allow-host or allow-hosts in the configuration names more%s",
		err, strings.Join(refused, ", "), w.hint)
}
