package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"archive/tar"
	"crypto/rand"
	"io"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// set is the services beside a sandbox, their network and their volumes.
type set struct {
	b       *Backend
	network string            // of the engine, by name
	volumes map[string]string // of the set → of the engine
	all     map[string]*neighbour
	names   []string // of every service
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	guests map[*Sandbox]bool // that share it
}

// neighbour is one service: a container of its own, whose first process is ours
// and starts the service's program.
type neighbour struct {
	set  *set
	conf sandbox.Service
	box  *Sandbox
	log  words

	started, healthy, completed, failed chan struct{}
	once                                [4]sync.Once
	err                                 error // once failed is closed
}

const (
	setPatience = 10 * time.Minute // for all services to be ready
	logKept     = 256 << 10        // bytes of what a service wrote
	maxRestarts = 100
)

// join gives the sandbox its place on a network: one of its own with the
// services that the spec names, or that of another sandbox.
func (s *Sandbox) join(ctx context.Context) error {
	switch {
	case s.spec.Beside != nil && s.spec.Set != nil:
		return errors.New("a sandbox has services of its own or another's, not both")
	case s.spec.Beside != nil:
		return s.replace(ctx)
	case s.spec.Set == nil || len(s.spec.Set.Beside) == 0:
		return nil
	}
	s.conf, s.hosts = s.spec.Set.Main, true
	s.conf.Name = "main"
	return s.makeSet(ctx)
}

func (s *Sandbox) makeSet(ctx context.Context) error {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	st := &set{b: s.b, volumes: map[string]string{}, all: map[string]*neighbour{}, stop: stop, guests: map[*Sandbox]bool{}}
	s.set = st
	labels := map[string]string{labelOwner: s.b.owner}
	name := "assay-" + strings.ToLower(rand.Text()[:16])
	// Nothing of the engine's machine is on it, not even an address of the bridge.
	err := s.b.api.call(ctx, "POST", "/networks/create", nil, map[string]any{"Name": name, "Driver": "bridge", "Internal": true,
		"Labels": labels, "Options": map[string]string{"com.docker.network.bridge.inhibit_ipv4": "true"}}, nil)
	if err != nil {
		return fmt.Errorf("make the network of %d services: %w", len(s.spec.Set.Beside), err)
	}
	st.network = name
	for _, c := range append(slices.Clone(s.spec.Set.Beside), s.conf) {
		st.names = append(append(st.names, c.Name), c.Aliases...)
		for _, v := range c.Volumes {
			if v.Name == "" || st.volumes[v.Name] != "" {
				continue
			}
			var made struct{ Name string }
			if err := s.b.api.call(ctx, "POST", "/volumes/create", nil, map[string]any{"Labels": labels}, &made); err != nil {
				return fmt.Errorf("make volume %q: %w", v.Name, err)
			}
			st.volumes[v.Name] = made.Name
		}
	}
	for _, c := range s.spec.Set.Beside {
		n, err := st.prepare(ctx, c, s.spec)
		if err != nil {
			return err
		}
		st.all[c.Name] = n
	}
	for _, n := range st.all {
		for _, a := range n.conf.After {
			if st.all[a.Service] == nil {
				return fmt.Errorf("service %q waits for %q, which is not one of them: %w", n.conf.Name, a.Service, sandbox.ErrUnsupported)
			}
		}
	}
	for _, name := range sortedKeys(st.all) {
		st.running.Go(func() { st.all[name].run(run) })
	}
	return st.ready(ctx, s.conf.After)
}

// prepare makes a service's box, which begins when its turn comes.
func (st *set) prepare(ctx context.Context, c sandbox.Service, main sandbox.Spec) (*neighbour, error) {
	n := &neighbour{set: st, conf: c, started: make(chan struct{}), healthy: make(chan struct{}), completed: make(chan struct{}), failed: make(chan struct{})}
	n.log.keep = logKept
	if len(c.Args) == 0 {
		return nil, fmt.Errorf("service %q: neither it nor its image says what it runs: %w", c.Name, sandbox.ErrUnhealthy)
	}
	spec := sandbox.Spec{Image: c.Image, Hostname: c.Hostname, Limits: c.Limits, Network: main.Network, Egress: main.Egress}
	if spec.Hostname == "" {
		spec.Hostname = c.Name
	}
	if err := supported(spec); err != nil {
		return nil, fmt.Errorf("service %q: %w", c.Name, err)
	}
	tag, err := st.b.image(ctx, c.Image.Layers)
	if err != nil {
		return nil, fmt.Errorf("service %q: %w", c.Name, err)
	}
	n.box = &Sandbox{b: st.b, spec: withGate(spec), layers: c.Image.Layers, procs: map[*process]bool{}, base: state{tag: tag}, conf: c, set: st}
	return n, nil
}

// ready waits until what main waits for has come, every health check passes and
// nothing has failed.
func (st *set) ready(ctx context.Context, after []sandbox.After) error {
	ctx, cancel := context.WithTimeoutCause(ctx, setPatience, fmt.Errorf("services are not ready after %v: %w", setPatience, sandbox.ErrUnhealthy))
	defer cancel()
	for _, a := range after {
		if st.all[a.Service] == nil {
			return fmt.Errorf("main waits for service %q, which is not there: %w", a.Service, sandbox.ErrUnsupported)
		}
		if err := st.all[a.Service].wait(ctx, a.Condition); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(st.all) {
		want := sandbox.Started
		if st.all[name].checked() {
			want = sandbox.Healthy
		}
		if err := st.all[name].wait(ctx, want); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(st.all) {
		select {
		case <-st.all[name].failed:
			return st.all[name].err
		default:
		}
	}
	return nil
}

func (n *neighbour) checked() bool { return len(n.conf.Health.Test) > 1 }

// wait returns when a condition has come, or cannot come any more.
func (n *neighbour) wait(ctx context.Context, c sandbox.Condition) error {
	ch := n.started
	switch {
	case c == sandbox.Completed:
		ch = n.completed
	case c == sandbox.Healthy && !n.checked():
		return fmt.Errorf("service %q is waited for to be healthy and has no health check: %w", n.conf.Name, sandbox.ErrUnhealthy)
	case c == sandbox.Healthy:
		ch = n.healthy
	}
	select {
	case <-ch:
		return nil
	case <-n.failed:
		select {
		case <-ch: // before it failed
			return nil
		default:
			return n.err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *neighbour) mark(i int, ch chan struct{}) { n.once[i].Do(func() { close(ch) }) }

func (n *neighbour) fail(err error) {
	n.once[3].Do(func() {
		n.err = fmt.Errorf("service %q: %w", n.conf.Name, err)
		if said := strings.TrimSpace(n.log.String()); said != "" {
			n.err = fmt.Errorf("%w; it said: %s", n.err, said[max(0, len(said)-1000):])
		}
		close(n.failed)
	})
}

// run is the service's life, until ctx ends.
func (n *neighbour) run(ctx context.Context) {
	for _, a := range n.conf.After {
		if err := n.set.all[a.Service].wait(ctx, a.Condition); err != nil {
			n.fail(fmt.Errorf("not started: %w", err))
			return
		}
	}
	if err := n.box.begin(ctx, n.box.base); err != nil {
		n.fail(err)
		return
	}
	if n.checked() {
		n.set.running.Go(func() { n.check(ctx) })
	}
	wait := 100 * time.Millisecond
	for range maxRestarts {
		code, err := n.program(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			n.fail(fmt.Errorf("%w: %w", err, sandbox.ErrUnhealthy))
			return
		case code == 0:
			n.mark(2, n.completed)
		}
		if n.conf.Restart == sandbox.RestartNever || n.conf.Restart == sandbox.RestartFailure && code == 0 {
			if code != 0 || n.checked() {
				n.fail(fmt.Errorf("its program ended with status %d: %w", code, sandbox.ErrUnhealthy))
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, 10*time.Second)
	}
	n.fail(fmt.Errorf("its program ended %d times: %w", maxRestarts, sandbox.ErrUnhealthy))
}

// program runs the service's program to its end.
func (n *neighbour) program(ctx context.Context) (code int, err error) {
	p, err := n.box.Start(ctx, sandbox.Command{Args: n.conf.Args, Env: n.conf.Env, Dir: n.conf.Dir, User: n.conf.User})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	n.mark(0, n.started)
	var read sync.WaitGroup
	for _, r := range []io.Reader{p.Stdout(), p.Stderr()} {
		read.Go(func() { io.Copy(&n.log, r) }) // ends with the program's container at the latest
	}
	e, err := p.Wait(ctx)
	p.Close()
	read.Wait()
	return e.Code, err
}

// check asks until the service is healthy. Docker asks once an interval; a
// service that is quicker is seen sooner here, and one that is slower is given
// as much time as there.
func (n *neighbour) check(ctx context.Context) {
	select {
	case <-n.started:
	case <-n.failed:
		return
	case <-ctx.Done():
		return
	}
	h := n.conf.Health
	interval, timeout, retries := orDefault(int64(h.Interval), int64(sandbox.HealthInterval)), orDefault(int64(h.Timeout), int64(sandbox.HealthTimeout)), orDefault(int64(h.Retries), sandbox.HealthRetries)
	end := time.Now().Add(h.StartPeriod + time.Duration(retries)*time.Duration(interval))
	args := h.Test[1:]
	if h.Test[0] == "CMD-SHELL" {
		args = []string{"/bin/sh", "-c", h.Test[1]}
	}
	wait := 100 * time.Millisecond
	for {
		r, err := sandbox.Exec(ctx, n.box, sandbox.Command{Args: args, Env: n.conf.Env, Dir: n.conf.Dir, User: n.conf.User},
			sandbox.ExecOptions{Timeout: time.Duration(timeout), Cap: 4 << 10})
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && r.Exit.Code == 0 && !r.TimedOut:
			n.mark(1, n.healthy)
			return
		case time.Now().After(end):
			n.fail(fmt.Errorf("its health check %q does not pass: status %d %.300s %v: %w", strings.Join(args, " "), r.Exit.Code, r.Stderr, errOrNothing(err), sandbox.ErrUnhealthy))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-n.failed:
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, time.Duration(interval), 2*time.Second)
	}
}

func errOrNothing(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Start, Put, Get and Log make a neighbour a sandbox.Neighbour.
func (n *neighbour) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	return n.box.Start(ctx, c)
}

func (n *neighbour) Put(ctx context.Context, dst image.Path, tar io.Reader) error {
	return n.box.Put(ctx, dst, tar)
}

func (n *neighbour) Get(ctx context.Context, src image.Path, tar io.Writer, maxBytes int64) error {
	return n.box.Get(ctx, src, tar, maxBytes)
}

func (n *neighbour) Log() []byte { return []byte(n.log.String()) }

// Beside gives a service.
func (s *Sandbox) Beside(name string) (sandbox.Neighbour, bool) {
	if s.set == nil || s.set.all[name] == nil {
		return nil, false
	}
	return s.set.all[name], true
}

// placed adds what a service's place among others asks of its container.
func (s *Sandbox) placed(c *containerSpec) {
	if s.set == nil {
		return
	}
	h := &c.HostConfig
	h.NetworkMode = s.set.network
	// Who may write frames by hand can address the machine itself, which is on
	// the other side of every one of its bridges.
	h.CapAdd = slices.DeleteFunc(h.CapAdd, func(c string) bool { return c == "NET_RAW" })
	// What is no service has no name: the engine's resolver asks nobody.
	h.DNS = []string{"127.0.0.1"}
	c.NetworkingConfig = &networking{map[string]endpoint{s.set.network: s.endpoint()}}
	h.ExtraHosts, h.Sysctls, h.ShmSize = s.conf.Hosts, s.conf.Sysctls, s.conf.ShmBytes
	if s.conf.Hostname != "" {
		c.Hostname = s.conf.Hostname
	}
	for _, v := range s.conf.Volumes {
		h.Mounts = append(h.Mounts, mount{Type: "volume", Source: s.set.volumes[v.Name], Target: string(v.Target), ReadOnly: v.ReadOnly,
			VolumeOptions: &volumeOptions{Labels: map[string]string{labelOwner: s.b.owner}}})
	}
	for _, t := range s.conf.Tmpfs {
		if h.Tmpfs == nil {
			h.Tmpfs = map[string]string{}
		}
		h.Tmpfs[string(t)] = "rw,nosuid,nodev,exec"
	}
}

func (s *Sandbox) endpoint() endpoint {
	return endpoint{Aliases: append([]string{s.conf.Name}, s.conf.Aliases...)}
}

// putFiles copies what a service mounts of the task.
func (s *Sandbox) putFiles(ctx context.Context) error {
	for _, f := range s.conf.Files {
		fi, err := os.Stat(string(f.Source))
		if err == nil && fi.IsDir() {
			err = sandbox.PutDir(ctx, s, f.Target, string(f.Source), sandbox.TreeCaps{})
		} else if err == nil {
			err = s.putFile(ctx, f)
		}
		if err != nil {
			return fmt.Errorf("copy %s to %s: %w", f.Source, f.Target, err)
		}
	}
	return nil
}

const maxHostFile = 1 << 30

func (s *Sandbox) putFile(ctx context.Context, f sandbox.HostFile) error {
	dir, err := os.OpenRoot(path.Dir(string(f.Source)))
	if err != nil {
		return err
	}
	defer dir.Close()
	in, err := dir.Open(path.Base(string(f.Source)))
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxHostFile {
		return fmt.Errorf("%s is no file of at most %d bytes", f.Source, maxHostFile)
	}
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(string(f.Target)), Mode: int64(fi.Mode().Perm()), Size: fi.Size(), ModTime: fi.ModTime()})
		if err == nil {
			_, err = io.CopyN(tw, in, fi.Size())
		}
		if err == nil {
			err = tw.Close()
		}
		w.CloseWithError(err)
	}()
	defer r.Close()
	return s.Put(ctx, image.Path(path.Dir(string(f.Target))), r)
}

// replace takes another sandbox's place on its network: from now on its
// services reach this one.
func (s *Sandbox) replace(ctx context.Context) error {
	other, ok := s.spec.Beside.(*Sandbox)
	if !ok || other.b != s.b {
		return errors.New("the sandbox to stand beside is of another backend")
	}
	if other.set == nil {
		return nil
	}
	other.set.mu.Lock()
	other.set.guests[s] = true
	other.set.mu.Unlock()
	s.set, s.conf = other.set, other.conf
	s.conf.Files = nil // they are in the tree, as it has become
	l, err := other.link()
	if err != nil {
		return err
	}
	s.before = other
	return s.b.api.call(ctx, "POST", "/networks/"+s.set.network+"/disconnect", nil, map[string]any{"Container": l.c.id, "Force": true}, nil)
}

// part leaves the network after the container is gone: it gives another's place
// back, or ends what was this sandbox's own.
func (s *Sandbox) part(ctx context.Context) error {
	s.mu.Lock()
	parted := s.parted
	s.parted = true
	s.mu.Unlock()
	switch {
	case parted || s.set == nil:
		return nil
	case s.hosts:
		return s.set.close()
	case s.before == nil:
		return nil
	}
	s.set.mu.Lock()
	delete(s.set.guests, s)
	s.set.mu.Unlock()
	before := s.before
	l, err := before.link()
	if err != nil {
		return nil // it has ended
	}
	err = s.b.api.call(ctx, "POST", "/networks/"+s.set.network+"/connect", nil, map[string]any{"Container": l.c.id, "EndpointConfig": before.endpoint()}, nil)
	if isStatus(err, 404, 403, 409) { // it, or the network, is going
		return nil
	}
	return err
}

// close ends the services, whoever still shares them, and frees what was theirs.
func (st *set) close() error {
	st.mu.Lock()
	guests := slices.Collect(maps.Keys(st.guests))
	st.mu.Unlock()
	var errs []error
	for _, g := range guests {
		errs = append(errs, g.Close())
	}
	st.stop()
	var mu sync.Mutex
	var ends sync.WaitGroup
	for _, n := range st.all {
		ends.Go(func() {
			err := n.box.Close()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	ends.Wait()
	st.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	remove := func(path string, q url.Values) {
		err := st.b.api.call(ctx, "DELETE", path, q, nil, nil)
		if !isStatus(err, 404) {
			errs = append(errs, err)
		}
	}
	if st.network != "" {
		remove("/networks/"+st.network, nil)
	}
	for _, name := range sortedKeys(st.volumes) {
		remove("/volumes/"+st.volumes[name], url.Values{"force": {"1"}})
	}
	return errors.Join(errs...)
}
