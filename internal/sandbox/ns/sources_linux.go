package ns

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/image"
)

// What a tree is made of before anything is written to it: layers, binds, and a
// skeleton of the places that mounts go to.

// takeLayers keeps layers that the backend opened.
func (k *keeper) takeLayers(q request, fds []int) error {
	if len(fds) != len(q.Layers) {
		return fmt.Errorf("layers without their mounts")
	}
	for i, l := range q.Layers {
		if _, err := k.openLayer(l, fds[i]); err != nil {
			return fmt.Errorf("layer %s: %w", l, err)
		}
	}
	return nil
}

// openLayers finds the layers of a new stack.
func (k *keeper) openLayers(q request) (*stack, error) {
	st := &stack{}
	for i, l := range q.Layers {
		p, err := k.openLayer(l, -1)
		if err != nil {
			k.release(st.covers...)
			return nil, fmt.Errorf("layer %s: %w", l, err)
		}
		st.layers = append(st.layers, p)
		if i < len(q.Covers) && q.Covers[i] != "" {
			c, err := k.covering(q.Covers[i])
			if err != nil {
				k.release(st.covers...)
				return nil, err
			}
			st.layers, st.covers = append(st.layers, c.upper()), append(st.covers, c)
		}
	}
	return st, nil
}

// openLayer keeps each layer open for as long as the keeper lives.
func (k *keeper) openLayer(l image.HostPath, given int) (string, error) {
	k.mu.Lock()
	p, ok := k.layers[l]
	k.mu.Unlock()
	if ok {
		return p, nil
	}
	if given >= 0 {
		at, err := k.adopt(given)
		if err != nil {
			return "", err
		}
		p = at
	} else if k.conf.Root {
		return "", fmt.Errorf("its mount was never sent")
	} else {
		fd, err := k.openHost(l)
		if err != nil {
			return "", err
		}
		p = fdPath(fd)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.layers[l] = p
	return p, nil
}

// adopt attaches a mount that the backend opened; before Linux 6.15 a detached
// one can neither be copied nor be a layer.
func (k *keeper) adopt(m int) (string, error) {
	p := "/layers/" + strconv.Itoa(k.number())
	var st unix.Stat_t
	err := unix.Fstat(m, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.Mkdir(p, 0o755)
	} else if err == nil {
		err = os.WriteFile(p, nil, 0o644)
	}
	if err == nil {
		err = attach(m, p)
	}
	return p, err
}

// openBinds opens the mounts that go into every root of the box.
func (k *keeper) openBinds(b *box, q request, fds []int) error {
	for _, m := range q.Binds {
		given := -1
		if k.conf.Root && m.Memory == 0 {
			if len(fds) == 0 {
				return fmt.Errorf("binds without their mounts")
			}
			given, fds = fds[0], fds[1:]
		}
		fd, err := k.openBind(b, m, given)
		if err != nil {
			return fmt.Errorf("mount %s: %w", m.Source, err)
		}
		b.binds, b.readOnly = append(b.binds, fd), append(b.readOnly, m.ReadOnly)
	}
	return nil
}

func (k *keeper) openBind(b *box, m bind, given int) (int, error) {
	if m.Memory > 0 {
		fresh, err := k.memory(m.Memory)
		if err != nil {
			return -1, err
		}
		defer unix.Close(fresh)
		given = fresh
	}
	if given < 0 {
		return k.openHost(m.Source)
	}
	p, err := k.adopt(given)
	if err != nil {
		return -1, err
	}
	b.adopted = append(b.adopted, p)
	return unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
}

// skeleton is a directory with everything that is mounted on, so that a tree
// needs no change for it. It lies at the bottom of every stack.
func (k *keeper) skeleton(b *box, q request) (string, error) {
	dirs := []string{"proc", "dev", "tmp"}
	files := []string{}
	for _, d := range q.Dirs {
		dirs = append(dirs, inTree(d))
	}
	for i, m := range q.Binds {
		var st unix.Stat_t
		if err := unix.Fstat(b.binds[i], &st); err != nil {
			return "", err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			dirs = append(dirs, inTree(m.Target))
		} else {
			files = append(files, inTree(m.Target))
		}
	}
	if q.Apt {
		dirs = append(dirs, path.Dir(aptFile))
	}
	key := strings.Join(dirs, "\x00") + "\x00\x00" + strings.Join(files, "\x00")
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, ok := k.skels[key]; ok {
		return p, nil
	}
	k.next++
	p := "/skel/" + strconv.Itoa(k.next)
	if err := os.Mkdir(p, 0o755); err != nil {
		return "", err
	}
	for _, d := range dirs {
		if err := os.MkdirAll(path.Join(p, d), 0o755); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(p+"/tmp", 0o777|os.ModeSticky); err != nil {
		return "", err
	}
	for _, f := range files {
		if err := os.MkdirAll(path.Dir(path.Join(p, f)), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path.Join(p, f), nil, 0o644); err != nil {
			return "", err
		}
	}
	if q.Apt {
		if err := os.WriteFile(path.Join(p, aptFile), []byte(aptSetting), 0o644); err != nil {
			return "", err
		}
	}
	k.skels[key] = p
	return p, nil
}

// inTree makes a path relative to a tree's root.
func inTree(p image.Path) string { return strings.TrimPrefix(path.Clean("/"+string(p)), "/") }
