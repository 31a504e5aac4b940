package ns

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// volume is where one upper directory lies. It is counted: sandboxes,
// snapshots and running requests hold it.
type volume struct {
	path string // in the keeper's tree
	kept bool   // its content was put aside; set before anybody else knows of it
	disk bool
	refs int // guarded by keeper.mu
}

func (v *volume) upper() string {
	if v.kept {
		return v.path + "/k"
	}
	return v.path + "/u"
}
func (v *volume) work() string { return v.path + "/w" }

// newVolume makes an empty volume of a size, held once.
func (k *keeper) newVolume(bytes, inodes int64, disk bool) (*volume, error) {
	v := &volume{disk: disk, refs: 1}
	if disk {
		if k.scratch == "" {
			return nil, fmt.Errorf("a tree on disk needs a scratch directory")
		}
		v.path = "/scratch/" + strconv.Itoa(k.number())
		if err := os.Mkdir(v.path, 0o700); err != nil {
			return nil, err
		}
	} else {
		v.path = "/v/" + strconv.Itoa(k.number())
		m, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, k.volumeOptions(bytes, inodes)...)
		if err != nil {
			return nil, err
		}
		defer unix.Close(m)
		if err := os.Mkdir(v.path, 0o700); err != nil {
			return nil, err
		}
		if err := attach(m, v.path); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{v.upper(), v.work()} {
		if err := os.Mkdir(d, 0o755); err != nil {
			k.release(v)
			return nil, err
		}
	}
	return v, nil
}

// hold counts one more user.
func (k *keeper) hold(vs ...*volume) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range vs {
		v.refs++
	}
}

// release counts one less and frees what nobody uses.
func (k *keeper) release(vs ...*volume) {
	k.mu.Lock()
	free := []*volume{}
	for _, v := range vs {
		if v.refs--; v.refs == 0 {
			free = append(free, v)
		}
	}
	if len(free) > 0 {
		k.forgetGrounds(free)
	}
	k.mu.Unlock()
	for _, v := range free {
		if v.disk {
			k.trash.Go(func() { _ = os.RemoveAll(v.path) }) // what stays is swept by the next keeper
			continue
		}
		_ = unix.Unmount(v.path, unix.MNT_DETACH)
		_ = os.Remove(v.path)
	}
}

// used is what a volume holds, in bytes and inodes.
func (v *volume) used() (bytes, inodes int64) {
	var st unix.Statfs_t
	if v.disk || unix.Statfs(v.path, &st) != nil {
		return 0, 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Files - st.Ffree)
}

// openScratch attaches the scratch directory and takes a part of it that
// belongs to this keeper as long as it holds a lock. Parts whose lock is free
// are left over from keepers that were killed, and go.
func (k *keeper) openScratch(fds []int) error {
	if k.conf.Scratch == "" {
		return nil
	}
	var m int
	if k.conf.Root {
		if len(fds) != 1 {
			return fmt.Errorf("scratch directory without its mount")
		}
		m = fds[0] // the caller closes it
	} else {
		fd, err := k.openHost(k.conf.Scratch)
		if err != nil {
			return fmt.Errorf("scratch directory %s: %w", k.conf.Scratch, err)
		}
		defer unix.Close(fd)
		if m, err = cloneTree(fd); err != nil {
			return fmt.Errorf("scratch directory %s: %w", k.conf.Scratch, err)
		}
		defer unix.Close(m)
	}
	if err := attach(m, "/l"); err != nil {
		return err
	}
	sweepScratch("/l")
	name := "live-" + rand.Text()
	lock, err := unix.Open("/l/"+name+".lock", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("scratch directory %s: %w", k.conf.Scratch, err)
	}
	if err := unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB); err != nil { // open as long as we live
		return err
	}
	if err := os.Mkdir("/l/"+name, 0o700); err != nil {
		return err
	}
	own, err := unix.OpenTree(unix.AT_FDCWD, "/l/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	k.scratch = "/l/" + name
	return attach(own, "/scratch")
}

// sweepScratch removes what dead keepers left.
func sweepScratch(dir string) {
	locks, _ := filepath.Glob(dir + "/live-*.lock")
	for _, p := range locks {
		fd, err := unix.Open(p, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			if os.RemoveAll(strings.TrimSuffix(p, ".lock")) == nil {
				_ = os.Remove(p)
			}
		}
		unix.Close(fd)
	}
}

// emptyTrash removes what the store could not: its user is not the owner of
// what other ids have left in a host directory.
func (k *keeper) emptyTrash() {
	fd, err := k.openHost(k.conf.Trash)
	if err != nil {
		return // what stays is left to the next keeper
	}
	defer unix.Close(fd)
	names, err := os.ReadDir(fdPath(fd))
	if err != nil {
		return
	}
	for _, n := range names {
		_ = os.RemoveAll(filepath.Join(fdPath(fd), n.Name()))
	}
}

func (k *keeper) closeScratch() {
	if k.scratch == "" {
		return
	}
	_ = unix.Unmount("/scratch", unix.MNT_DETACH)
	if os.RemoveAll(k.scratch) == nil {
		_ = os.Remove(k.scratch + ".lock")
	}
}
