package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"assay/internal/image"
	"assay/internal/sandbox"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
)

// mounts are what the flags of one RUN ask for, and what must end with it.
type mounts struct {
	list    []sandbox.Mount
	env     []string
	secrets [][]byte // to be kept out of the progress
	ends    []func()
}

func (m *mounts) close() {
	for _, end := range slices.Backward(m.ends) {
		end()
	}
}

// mountKey is what of the mounts decides a RUN's result: the trees that are
// bound, never the content of caches and secrets.
func (x *execution) mountKey(ctx context.Context, c *instructions.RunCommand) ([]any, error) {
	var key []any
	for _, m := range instructions.GetMounts(c) {
		part := []any{m.Type, x.abs(m.Target), m.ReadOnly, m.CacheID, m.Env}
		if m.Type == instructions.MountTypeBind {
			t, err := x.b.tree(ctx, x, m.From)
			if err != nil {
				return nil, err
			}
			w := walker{t: t, left: x.b.o.Store.Caps().Bytes}
			if err := w.collect(ctx, strings.TrimPrefix(path.Clean("/"+m.Source), "/")); err != nil {
				return nil, err
			}
			part = append(part, digestsOf(w.items))
		}
		key = append(key, part)
	}
	return key, nil
}

func (x *execution) mounts(ctx context.Context, c *instructions.RunCommand) (_ *mounts, err error) {
	all := &mounts{}
	defer func() {
		if err != nil {
			all.close()
		}
	}()
	for i, m := range instructions.GetMounts(c) {
		target := image.Path(x.abs(m.Target))
		switch m.Type {
		case instructions.MountTypeCache:
			err = x.cacheMount(ctx, all, m, target)
		case instructions.MountTypeTmpfs:
			all.list = append(all.list, sandbox.Mount{Memory: memoryOf(m.SizeLimit), Target: target})
		case instructions.MountTypeBind:
			err = x.bindMount(ctx, all, m, target)
		case instructions.MountTypeSecret:
			err = x.secretMount(all, m)
		case instructions.MountTypeSSH:
			err = x.agentMount(all, m, i)
		}
		if err != nil {
			return nil, fmt.Errorf("--mount=type=%s: %w", m.Type, err)
		}
	}
	return all, nil
}

func (x *execution) cacheMount(ctx context.Context, all *mounts, m *instructions.Mount, target image.Path) error {
	id, how, mode := m.CacheID, image.Sharing(m.CacheSharing), fs.FileMode(0o755)
	if id == "" {
		id = string(target)
	}
	if how == "" {
		how = image.SharingShared
	}
	if m.Mode != nil {
		mode = fs.FileMode(*m.Mode) & 0o777
	}
	dir, release, err := x.b.o.Store.CacheMount(ctx, fmt.Sprint(x.b.o.UID, "\x00", id), how, mode)
	if err != nil {
		return err
	}
	all.ends = append(all.ends, release)
	if m.Source != "" && path.Clean("/"+m.Source) != "/" {
		return &UnsupportedError{"RUN --mount=type=cache,source=", "leave source out"}
	}
	all.list = append(all.list, sandbox.Mount{Host: dir, Target: target, ReadOnly: m.ReadOnly})
	return nil
}

// memoryOf is a tmpfs' size: what the flag says, else what the backend gives.
func memoryOf(size int64) int64 {
	if size <= 0 {
		return -1
	}
	return size
}

func (x *execution) private(all *mounts) (*image.Private, error) {
	p, err := x.b.o.Store.Private()
	if err == nil {
		all.ends = append(all.ends, func() { p.Close() })
	}
	return p, err
}

// bindMount lays a tree of the context, a stage or an image into the sandbox,
// as a layer: nothing of this machine's own tree is ever mounted, and what the
// command writes to it is thrown away.
func (x *execution) bindMount(ctx context.Context, all *mounts, m *instructions.Mount, target image.Path) error {
	t, err := x.b.tree(ctx, x, m.From)
	if err != nil {
		return err
	}
	w := walker{t: t, left: x.b.o.Store.Caps().Bytes}
	if err := w.collect(ctx, strings.TrimPrefix(path.Clean("/"+m.Source), "/")); err != nil {
		return err
	}
	if len(w.items) == 0 {
		return errors.New("nothing to mount")
	}
	isFile := !w.items[0].entry.IsDir()
	const name = "file"
	tmp := x.b.o.Store.Temporary()
	all.ends = append(all.ends, func() { tmp.Close() })
	lw, err := tmp.NewLayer(ctx)
	if err != nil {
		return err
	}
	defer lw.Abort()
	to := newTarget(lw)
	if isFile {
		err = to.one(ctx, name, w.items[0], t)
	} else {
		err = to.tree(ctx, ".", piece{tree: t, isDir: true, items: w.items})
	}
	if err != nil {
		return err
	}
	id, err := lw.Commit()
	if err != nil {
		return err
	}
	from := x.b.o.Store.Dir(id)
	if !m.ReadOnly {
		p, err := x.private(all)
		if err != nil {
			return err
		}
		if err := p.Fill(ctx, "copy", id); err != nil {
			return err
		}
		from = p.Path("copy")
	}
	if isFile {
		from = image.HostPath(filepath.Join(string(from), name))
	}
	all.list = append(all.list, sandbox.Mount{Host: from, Target: target, ReadOnly: m.ReadOnly})
	return nil
}

func (x *execution) secretMount(all *mounts, m *instructions.Mount) error {
	id := m.CacheID
	if m.Source != "" {
		id = m.Source
	}
	if id == "" {
		id = path.Base(m.Target)
	}
	value, ok := x.b.o.Secrets[id]
	if !ok {
		if m.Required {
			return fmt.Errorf("the secret %q is not given; build with --secret id=%s,src=FILE", id, id)
		}
		return nil
	}
	all.secrets = append(all.secrets, value)
	if m.Env != nil {
		name := *m.Env
		if name == "" {
			name = id
		}
		all.env = append(all.env, name+"="+string(value))
	}
	if m.Env != nil && m.Target == "" {
		return nil
	}
	target := "/run/secrets/" + path.Base(id)
	if m.Target != "" {
		target = x.abs(m.Target)
	}
	p, err := x.b.o.Store.PrivateInMemory()
	if err != nil {
		return err
	}
	all.ends = append(all.ends, func() { p.Close() })
	mode := fs.FileMode(0o400)
	if m.Mode != nil {
		mode = fs.FileMode(*m.Mode) & 0o777
	}
	if err := p.Write("secret", mode, value); err != nil {
		return err
	}
	all.list = append(all.list, sandbox.Mount{Host: p.Path("secret"), Target: image.Path(target), ReadOnly: true})
	return nil
}

// agentMount relays an ssh agent: the sandbox sees a socket of ours, never the
// agent's own.
func (x *execution) agentMount(all *mounts, m *instructions.Mount, i int) error {
	id := m.CacheID
	if id == "" {
		id = "default"
	}
	agent, ok := x.b.o.SSH[id]
	if !ok {
		if m.Required {
			return fmt.Errorf("no agent is given; build with --ssh %s", id)
		}
		return nil
	}
	p, err := x.b.o.Store.PrivateInMemory() // its path is short enough for a socket
	if err != nil {
		return err
	}
	all.ends = append(all.ends, func() { p.Close() })
	l, err := net.Listen("unix", string(p.Path("agent")))
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if m.Mode != nil {
		mode = fs.FileMode(*m.Mode) & 0o777
	}
	if err := errors.Join(os.Chmod(string(p.Path("agent")), mode), p.Give("agent")); err != nil {
		l.Close()
		return err
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() { relayAgent(ctx, &wg, l, string(agent)) })
	all.ends = append(all.ends, func() { cancel(); l.Close(); wg.Wait() })
	target := fmt.Sprintf("/run/buildkit/ssh_agent.%d", i)
	if m.Target != "" {
		target = x.abs(m.Target)
	}
	all.list = append(all.list, sandbox.Mount{Host: p.Path("agent"), Target: image.Path(target), ReadOnly: true})
	all.env = append(all.env, "SSH_AUTH_SOCK="+target)
	return nil
}

func relayAgent(ctx context.Context, wg *sync.WaitGroup, l net.Listener, agent string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer c.Close()
			d, err := net.Dial("unix", agent)
			if err != nil {
				return
			}
			defer d.Close()
			stop := context.AfterFunc(ctx, func() { c.Close(); d.Close() })
			defer stop()
			back := make(chan struct{})
			go func() { io.Copy(c, d); c.Close(); close(back) }()
			io.Copy(d, c)
			d.Close()
			<-back
		})
	}
}
