package fake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Backend implements sandbox.Backend in memory.
type Backend struct {
	store *image.Store

	mu     sync.Mutex
	boxes  map[*box]bool
	snaps  map[sandbox.Snapshot]frozen
	closed bool
}

type frozen struct {
	root   *node // never changed
	origin *node // what the layers come to, for Commit
	layers []image.LayerID
}

// Open returns a backend whose images come from a store.
func Open(st *image.Store) *Backend {
	return &Backend{store: st, boxes: map[*box]bool{}, snaps: map[sandbox.Snapshot]frozen{}}
}

// Capabilities of this backend: few.
func (b *Backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{
		Name: "fake", UIDModes: []sandbox.UIDMode{sandbox.UIDSingle}, Snapshots: true, Peek: true,
		Networks:  []sandbox.Network{sandbox.NetNone},
		Isolation: "runs no real program, so there is nothing to protect against; holds no limit",
	}
}

// box is one sandbox.
type box struct {
	b      *Backend
	spec   sandbox.Spec
	layers []image.LayerID

	mu       sync.Mutex // guards the tree, too
	root     *node
	base     *node // what Create stood upon
	origin   *node
	sessions map[*session]bool
	unheld   []string
	closed   bool
}

// Create makes a sandbox.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := b.create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create sandbox: %w", err)
	}
	return s, nil
}

func (b *Backend) create(ctx context.Context, spec sandbox.Spec) (*box, error) {
	if err := errors.Join(ctx.Err(), supported(spec)); err != nil {
		return nil, err
	}
	s := &box{b: b, spec: spec, layers: slices.Concat(spec.Image.Layers, spec.Extra), sessions: map[*session]bool{}}
	b.mu.Lock()
	closed := b.closed
	f, ok := b.snaps[spec.From]
	b.mu.Unlock()
	switch {
	case closed:
		return nil, sandbox.ErrClosed
	case spec.From != "" && !ok:
		return nil, fmt.Errorf("snapshot %s is not of this backend or was dropped", spec.From)
	case spec.From != "" && !slices.Equal(f.layers, s.layers):
		return nil, fmt.Errorf("snapshot %s stands on other layers than the spec's image", spec.From)
	case spec.From != "":
		s.base, s.origin = f.root, f.origin
	default:
		var err error
		if s.base, err = load(b.store, s.layers); err != nil {
			return nil, err
		}
		if err := furnish(s.base, spec); err != nil {
			return nil, err
		}
		s.origin = s.base
	}
	for _, m := range spec.Mounts {
		if err := s.mount(m); err != nil {
			return nil, err
		}
	}
	s.root = s.base.clone(map[*node]*node{})
	s.unheld = limits(spec.Limits)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, sandbox.ErrClosed
	}
	b.boxes[s] = true
	return s, nil
}

func supported(spec sandbox.Spec) error {
	switch {
	case spec.Network != "" && spec.Network != sandbox.NetNone:
		return fmt.Errorf("network %q: %w", spec.Network, sandbox.ErrUnsupported)
	case spec.UID != sandbox.UIDAuto && spec.UID != sandbox.UIDSingle:
		return fmt.Errorf("uid mode %q: %w", spec.UID, sandbox.ErrUnsupported)
	case spec.Set != nil || spec.Beside != nil:
		return fmt.Errorf("services beside the sandbox: %w", sandbox.ErrUnsupported)
	case spec.Service != "" && spec.Service != "main":
		return fmt.Errorf("service %q: %w", spec.Service, sandbox.ErrUnsupported)
	case len(spec.Relays) > 0:
		return fmt.Errorf("relays: %w", sandbox.ErrUnsupported)
	case len(spec.ReadOnly) > 0:
		return fmt.Errorf("read-only paths: %w", sandbox.ErrUnsupported)
	}
	for _, m := range spec.Mounts {
		if m.Memory != 0 {
			return fmt.Errorf("mount of memory at %s: %w", m.Target, sandbox.ErrUnsupported)
		}
		if m.Host != "" {
			return fmt.Errorf("mount of host directory %s: %w", m.Host, sandbox.ErrUnsupported)
		}
	}
	return nil
}

// furnish adds what every sandbox has and no layer need have.
func furnish(root *node, spec sandbox.Spec) error {
	w := walker{root: root}
	for _, d := range []string{"/tmp", "/root", string(spec.Image.Config.Workdir)} {
		if d == "" {
			continue
		}
		if _, err := w.mkdirs(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// mount copies a layer to a place of the tree.
func (s *box) mount(m sandbox.Mount) error {
	tree, err := load(s.b.store, []image.LayerID{m.Layer})
	if err != nil {
		return err
	}
	base := s.base.clone(map[*node]*node{})
	dir, err := walker{root: base}.mkdirs(string(m.Target), 0o755)
	if err != nil {
		return err
	}
	dir.children, s.base = tree.children, base
	return nil
}

// limits lists what was asked for: nothing is held.
func limits(l sandbox.Limits) []string {
	var out []string
	for name, v := range map[string]float64{"disk": float64(l.DiskBytes), "inodes": float64(l.Inodes), "pids": float64(l.Pids),
		"files": float64(l.OpenFiles), "memory": float64(l.MemBytes), "cpus": l.CPUs} {
		if v > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Held says that no limit is held.
func (s *box) Held() (held, unheld []string) { return nil, s.unheld }

// Kill ends every program.
func (s *box) Kill(context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("kill: %w", sandbox.ErrClosed)
	}
	s.mu.Unlock()
	s.killAll()
	return nil
}

func (s *box) killAll() {
	s.mu.Lock()
	all := make([]*session, 0, len(s.sessions))
	for p := range s.sessions {
		all = append(all, p)
	}
	s.mu.Unlock()
	for _, p := range all {
		p.kill()
	}
	for _, p := range all {
		<-p.gone
	}
}

// freeze keeps a copy of the tree.
func (s *box) freeze() (sandbox.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", sandbox.ErrClosed
	}
	id := sandbox.Snapshot(rand.Text())
	f := frozen{s.root.clone(map[*node]*node{}), s.origin, s.layers}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.snaps[id] = f
	return id, nil
}

// Snapshot kills and freezes.
func (s *box) Snapshot(context.Context) (sandbox.Snapshot, error) {
	s.killAll()
	id, err := s.freeze()
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	return id, nil
}

// Peek freezes a copy without killing.
func (s *box) Peek(context.Context) (sandbox.Snapshot, error) {
	id, err := s.freeze()
	if err != nil {
		return "", fmt.Errorf("peek: %w", err)
	}
	return id, nil
}

// Reset kills and goes back.
func (s *box) Reset(_ context.Context, to sandbox.Snapshot) error {
	s.b.mu.Lock()
	f, ok := s.b.snaps[to]
	s.b.mu.Unlock()
	if to != "" && (!ok || !slices.Equal(f.layers, s.layers)) {
		return fmt.Errorf("reset: snapshot %s is not one of this backend and image", to)
	}
	s.killAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("reset: %w", sandbox.ErrClosed)
	}
	from := s.base
	if to != "" {
		from = f.root
	}
	s.root = from.clone(map[*node]*node{})
	return nil
}

// Close ends the sandbox.
func (s *box) Close() error {
	s.b.mu.Lock()
	delete(s.b.boxes, s)
	s.b.mu.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.killAll()
	return nil
}

// Drop forgets a snapshot.
func (b *Backend) Drop(s sandbox.Snapshot) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.snaps, s)
	return nil
}

// Close ends everything.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	boxes := make([]*box, 0, len(b.boxes))
	for s := range b.boxes {
		boxes = append(boxes, s)
	}
	clear(b.snaps)
	b.mu.Unlock()
	var err error
	for _, s := range boxes {
		err = errors.Join(err, s.Close())
	}
	return err
}
