package docker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"crypto/rand"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/docker/inside"
)

// Config is what a backend needs to know. Store is required.
type Config struct {
	Store *image.Store
	Host  string // address of the engine, as in DOCKER_HOST; empty: DefaultHost
	// Program runs first in every container: a Linux build of assay for the
	// engine's machine. Empty: this program. It must call inside.Main first.
	Program string
}

// Labels of what a backend makes at the engine.
const (
	labelOwner = "assay.owner" // keeper that it lives with
	labelCache = "assay.cache" // image that stays
)

const (
	defaultPids = 4096
	maxDepth    = 100
)

// Backend implements sandbox.Backend and sandbox.Dropper.
type Backend struct {
	conf  Config
	api   *client
	info  info
	owner string

	keeper  *container
	volume  string // with the program
	program *program

	loading sync.Mutex // one image at a time
	loaded  map[string]bool

	tars     tars
	fetching sync.Mutex // one image of the engine's at a time

	mu     sync.Mutex
	boxes  map[*Sandbox]bool
	snaps  map[sandbox.Snapshot]*snapshot
	closed bool
}

// snapshot is a committed image.
type snapshot struct {
	tag    string
	layers []image.LayerID
	since  int64 // of the machine's clock: the layers are older, what differs from them is not
	boot   int64
	depth  int
	points []image.Path // see state

	once   sync.Once
	layer  image.LayerID
	commit error
}

type info struct {
	Architecture           string
	OSType                 string
	ServerVersion, Name    string
	MemoryLimit, PidsLimit bool
	CpuCfsQuota            bool
	SecurityOptions        []string
}

// Open connects to the engine, sweeps what killed backends left there, and
// starts its keeper. An engine that does not answer is a *doctor.Refusal.
func Open(ctx context.Context, conf Config) (*Backend, error) {
	api, err := newClient(conf.Host)
	if err != nil {
		return nil, err
	}
	b := &Backend{conf: conf, api: api, owner: strings.ToLower(rand.Text()), loaded: map[string]bool{},
		boxes: map[*Sandbox]bool{}, snaps: map[sandbox.Snapshot]*snapshot{}}
	if err := api.call(ctx, "GET", "/info", nil, nil, &b.info); err != nil {
		return nil, &doctor.Refusal{Finding: noEngine(api.address, err)}
	}
	if b.info.OSType != "linux" {
		return nil, fmt.Errorf("the engine at %s runs %q containers, not linux ones", api.address, b.info.OSType)
	}
	b.info.Architecture = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[b.info.Architecture]
	if b.program, err = findProgram(conf.Program); err != nil {
		return nil, err
	}
	if err := b.tars.learn(ctx, api); err != nil {
		return nil, fmt.Errorf("ask the engine for its images: %w", err)
	}
	if err := b.keep(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open docker backend: %w", err), b.Close())
	}
	if err := b.sweep(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sweep what others left: %w", err), b.Close())
	}
	return b, nil
}

// keep starts the keeper. Its volume is filled from its image.
func (b *Backend) keep(ctx context.Context) error {
	tag, err := b.programImage(ctx, b.program)
	if err != nil {
		return err
	}
	spec := b.bare(tag, "keep")
	spec.HostConfig.Mounts = []mount{{Type: "volume", Target: mountPoint, VolumeOptions: &volumeOptions{Labels: map[string]string{labelOwner: b.owner}}}}
	c, err := b.start(ctx, "assay-keeper-"+b.owner, spec)
	if err != nil {
		return err
	}
	b.keeper = c
	var at struct {
		Mounts []struct{ Name, Destination string }
	}
	if err := b.api.call(ctx, "GET", "/containers/"+c.id+"/json", nil, nil, &at); err != nil {
		return err
	}
	for _, m := range at.Mounts {
		if m.Destination == mountPoint {
			b.volume = m.Name
		}
	}
	if b.volume == "" {
		return errors.New("the engine made no volume for the program")
	}
	return nil
}

func filter(key, value string) url.Values {
	return url.Values{"filters": {fmt.Sprintf(`{%q:{%q:true}}`, key, value)}}
}

type labelled struct {
	ID     string `json:"Id"`
	Name   string
	Names  []string
	State  string
	Labels map[string]string
}

// sweep removes what belongs to keepers that are gone.
func (b *Backend) sweep(ctx context.Context) error {
	q := filter("label", labelOwner)
	q.Set("all", "1")
	var images []labelled
	if err := b.api.call(ctx, "GET", "/images/json", q, nil, &images); err != nil {
		return err
	}
	var volumes struct{ Volumes []labelled }
	if err := b.api.call(ctx, "GET", "/volumes", filter("label", labelOwner), nil, &volumes); err != nil {
		return err
	}
	var networks []labelled
	if err := b.api.call(ctx, "GET", "/networks", filter("label", labelOwner), nil, &networks); err != nil {
		return err
	}
	// Containers last: a keeper that was born meanwhile is seen.
	var all []labelled
	if err := b.api.call(ctx, "GET", "/containers/json", q, nil, &all); err != nil {
		return err
	}
	alive := map[string]bool{}
	for _, c := range all {
		if slices.Contains(c.Names, "/assay-keeper-"+c.Labels[labelOwner]) && c.State != "exited" && c.State != "dead" {
			alive[c.Labels[labelOwner]] = true
		}
	}
	gone := func(l labelled) bool { return !alive[l.Labels[labelOwner]] }
	return b.remove(ctx, gone, things{all, images, volumes.Volumes, networks})
}

// owned lists what carries this backend's label.
func (b *Backend) owned(ctx context.Context) (all things, err error) {
	q := filter("label", labelOwner+"="+b.owner)
	q.Set("all", "1")
	var volumes struct{ Volumes []labelled }
	for path, out := range map[string]any{"/containers/json": &all.containers, "/images/json": &all.images, "/volumes": &volumes, "/networks": &all.networks} {
		err = errors.Join(err, b.api.call(ctx, "GET", path, q, nil, out))
	}
	all.volumes = volumes.Volumes
	return all, err
}

// things are what an engine holds.
type things struct{ containers, images, volumes, networks []labelled }

func (b *Backend) remove(ctx context.Context, gone func(labelled) bool, all things) error {
	var errs []error
	try := func(err error) {
		if !isStatus(err, 404, 409) { // another sweeper was first, or is at it
			errs = append(errs, err)
		}
	}
	for _, c := range all.containers {
		if gone(c) {
			try(b.api.call(ctx, "DELETE", "/containers/"+c.ID, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil))
		}
	}
	// One that others stand on can only go after them.
	for left := all.images; len(left) > 0; {
		var stay []labelled
		for _, i := range left {
			if !gone(i) {
				continue
			}
			err := b.api.call(ctx, "DELETE", "/images/"+i.ID, url.Values{"force": {"1"}}, nil, nil)
			if isStatus(err, 409) {
				stay = append(stay, i)
			}
			try(err)
		}
		if len(stay) == len(left) {
			break // containers of others stand on them; their sweep is the next
		}
		left = stay
	}
	for _, v := range all.volumes {
		if gone(v) {
			try(b.api.call(ctx, "DELETE", "/volumes/"+v.Name, nil, nil, nil))
		}
	}
	for _, n := range all.networks {
		if gone(n) {
			err := b.api.call(ctx, "DELETE", "/networks/"+n.ID, nil, nil, nil)
			if isStatus(err, 403) { // a container that is just going is on it; the next sweep is in time
				err = nil
			}
			try(err)
		}
	}
	return errors.Join(errs...)
}

// Capabilities of this engine.
func (b *Backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{
		Name: "docker", UIDModes: []sandbox.UIDMode{sandbox.UIDRoot}, Snapshots: true, Peek: true, TTY: true, Relays: true, Services: true,
		Networks: []sandbox.Network{sandbox.NetNone, sandbox.NetAllowlist}, Limits: b.limits(),
		Isolation: "containers of " + b.info.ServerVersion + " at " + b.api.address +
			": they share its kernel, and unless it remaps users, root inside is its root with few capabilities; no limit on disk",
	}
}

func (b *Backend) limits() []string {
	out := []string{"files:ulimit"}
	if b.info.MemoryLimit {
		out = append(out, "memory:cgroup")
	}
	if b.info.PidsLimit {
		out = append(out, "pids:cgroup")
	}
	if b.info.CpuCfsQuota {
		out = append(out, "cpus:cgroup")
	}
	return out
}

// Create makes a sandbox.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := b.create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create sandbox: %w", err)
	}
	return s, nil
}

func (b *Backend) create(ctx context.Context, spec sandbox.Spec) (*Sandbox, error) {
	if err := supported(spec); err != nil {
		return nil, err
	}
	if err := b.mountable(spec.Mounts); err != nil {
		return nil, err
	}
	if err := b.volumes(ctx, spec.Mounts); err != nil {
		return nil, err
	}
	layers := slices.Concat(spec.Image.Layers, spec.Extra)
	b.mu.Lock()
	from, ok := b.snaps[spec.From]
	closed := b.closed
	b.mu.Unlock()
	s := &Sandbox{b: b, spec: withGate(spec), layers: layers, procs: map[*process]bool{}}
	switch {
	case closed:
		return nil, sandbox.ErrClosed
	case spec.From != "" && !ok:
		return nil, fmt.Errorf("snapshot %s is not of this backend or was dropped", spec.From)
	case spec.From != "" && !slices.Equal(from.layers, layers):
		return nil, fmt.Errorf("snapshot %s stands on other layers than the spec's image", spec.From)
	case spec.From != "":
		s.base = *from.state()
	default:
		tag, err := b.image(ctx, layers)
		if err != nil {
			return nil, err
		}
		s.base = state{tag: tag}
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, sandbox.ErrClosed
	}
	b.boxes[s] = true
	b.mu.Unlock()
	if err := s.join(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.begin(ctx, s.base); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.base.since == 0 {
		s.base.since, s.base.boot = s.since, s.boot
	}
	return s, nil
}

func supported(spec sandbox.Spec) error {
	switch {
	case spec.Network != "" && spec.Network != sandbox.NetNone && spec.Network != sandbox.NetAllowlist:
		return fmt.Errorf("network %q: %w by the docker backend: an engine's own network has no gate; use an allow-list", spec.Network, sandbox.ErrUnsupported)
	case spec.Network == sandbox.NetAllowlist && spec.Egress == nil:
		return errors.New("an allow-list needs somebody who decides: Spec.Egress is not set")
	case slices.ContainsFunc(spec.Relays, func(r sandbox.Relay) bool {
		return r.Port == sandbox.ProxyPort && spec.Network == sandbox.NetAllowlist
	}):
		return fmt.Errorf("port %d is the allow-list's own: %w", sandbox.ProxyPort, sandbox.ErrUnsupported)
	case spec.UID != sandbox.UIDAuto && spec.UID != sandbox.UIDRoot:
		return fmt.Errorf("uid mode %q: %w", spec.UID, sandbox.ErrUnsupported)
	case spec.Service != "" && spec.Service != "main":
		return fmt.Errorf("service %q: %w", spec.Service, sandbox.ErrUnsupported)
	case len(spec.Image.Binds) > 0:
		return fmt.Errorf("image %q is made of directories of this machine, which an engine does not have: %w; import one (assay image import), or use the ns backend",
			spec.Image.Name, sandbox.ErrUnsupported)
	case len(spec.ReadOnly) > 0:
		return fmt.Errorf("read-only paths of the container's own tree: %w: an engine mounts only what lies elsewhere", sandbox.ErrUnsupported)
	case len(spec.Image.Layers)+len(spec.Extra) == 0:
		return fmt.Errorf("image %q has no layer: %w", spec.Image.Name, sandbox.ErrUnsupported)
	}
	return nil
}

// Drop frees a snapshot.
func (b *Backend) Drop(id sandbox.Snapshot) error {
	b.mu.Lock()
	s := b.snaps[id]
	delete(b.snaps, id)
	b.mu.Unlock()
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := b.api.call(ctx, "DELETE", "/images/"+s.tag, nil, nil, nil)
	if isStatus(err, 404, 409) { // a sandbox that stands on it goes on; Close has the rest
		err = nil
	}
	return err
}

// Close ends every sandbox and drops every snapshot.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	all := make([]*Sandbox, 0, len(b.boxes))
	for s := range b.boxes {
		all = append(all, s)
	}
	b.mu.Unlock()
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	// With what a call left that was broken off.
	mine, err := b.owned(ctx)
	errs = append(errs, err, b.remove(ctx, func(l labelled) bool { return b.keeper == nil || l.ID != b.keeper.id && l.Name != b.volume }, mine))
	if b.keeper != nil {
		errs = append(errs, b.keeper.remove(ctx))
	}
	b.api.http.CloseIdleConnections()
	return errors.Join(errs...)
}

// bare is a container without anything of a sandbox's.
func (b *Backend) bare(image string, args ...string) containerSpec {
	return containerSpec{
		Image: image, Entrypoint: b.program.args[:1], Cmd: append(slices.Clone(b.program.args[1:]), args...),
		OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true, User: "0:0", WorkingDir: "/",
		Labels: map[string]string{labelOwner: b.owner}, Healthcheck: map[string][]string{"Test": {"NONE"}},
		HostConfig: hostConfig{AutoRemove: true, NetworkMode: "none", CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges:true"},
			LogConfig: map[string]string{"Type": "none"}},
	}
}

// spec is a sandbox's container.
func (b *Backend) spec(s *Sandbox, image string) containerSpec {
	ports := []string{"serve"}
	for _, r := range s.spec.Relays {
		ports = append(ports, strconv.Itoa(r.Port))
	}
	c := b.bare(image, ports...)
	c.Hostname = s.spec.Hostname
	if c.Hostname == "" {
		c.Hostname = "assay"
	}
	h := &c.HostConfig
	// Docker's own default set, said aloud for engines with another one.
	h.CapAdd = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
		"NET_BIND_SERVICE", "NET_RAW", "SYS_CHROOT", "MKNOD", "AUDIT_WRITE", "SETFCAP"}
	h.Mounts = []mount{{Type: "volume", Source: b.volume, Target: mountPoint, ReadOnly: true, VolumeOptions: &volumeOptions{NoCopy: true}}}
	h.Mounts = append(h.Mounts, b.binds(s.spec.Mounts)...)
	s.placed(&c)
	l := s.spec.Limits
	if l.MemBytes > 0 && b.info.MemoryLimit {
		h.Memory, h.MemorySwap = l.MemBytes, l.MemBytes
	}
	if l.CPUs > 0 && b.info.CpuCfsQuota {
		h.NanoCpus = int64(l.CPUs * 1e9)
	}
	if n := orDefault(l.Pids, defaultPids); n > 0 && b.info.PidsLimit {
		h.PidsLimit = n + inside.Threads // which the engine counts, too
	}
	h.Ulimits = []ulimit{{Name: "core"}}
	// Without a wish the engine's own limit stays: it may not be able to give more.
	if n := l.OpenFiles; n > 0 {
		h.Ulimits = append(h.Ulimits, ulimit{Name: "nofile", Soft: n, Hard: n})
	}
	return c
}

func orDefault(v, def int64) int64 {
	if v == 0 {
		return def
	}
	return v
}
