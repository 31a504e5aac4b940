package ns

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// visitor gets what a stack of upper directories comes to, names in order,
// parents first.
type visitor interface {
	// enter is a directory; at is open on the topmost of those that merge.
	enter(rel string, at int, st *unix.Stat_t, opaque bool) error
	// leave comes after the last of the directory's content.
	leave() error
	whiteout(rel string) error
	// leaf is a file, link, pipe or socket called base in dir.
	leaf(rel string, dir int, base string, st *unix.Stat_t) error
}

// merge walks upper directories, top first, as the kernel would lay them upon
// each other. What hides something below all of them is reported, as whiteout
// or opaque. The tree may be written to meanwhile; what vanishes is left out.
func merge(uppers []string, v visitor) error {
	fds := []int{}
	defer func() { closeFDs(fds) }()
	for _, u := range uppers {
		fd, err := unix.Open(u, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	if len(fds) == 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fds[0], &st); err != nil {
		return err
	}
	if err := v.enter(".", fds[0], &st, false); err != nil {
		return err
	}
	if err := mergeDir(fds, ".", v, 0); err != nil {
		return err
	}
	return v.leave()
}

func closeFDs(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

func mergeDir(fds []int, rel string, v visitor, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%.200q: nested deeper than %d: %w", rel, maxDepth, sandbox.ErrTooLarge)
	}
	top := map[string]int{} // which of fds has a name first
	for i, fd := range fds {
		names, err := readNames(fd)
		if err != nil {
			return err
		}
		for _, n := range names {
			if _, ok := top[n]; !ok {
				top[n] = i
			}
		}
	}
	names := make([]string, 0, len(top))
	for n := range top {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		err := mergeName(fds[top[n]:], n, path.Join(rel, n), v, depth)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// readNames lists a directory without owning its descriptor.
func readNames(fd int) ([]string, error) {
	again, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(again), ".")
	defer f.Close()
	return f.Readdirnames(-1)
}

// mergeName handles one name; fds[0] has it.
func mergeName(fds []int, base, rel string, v visitor, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(fds[0], base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch {
	case isWhiteout(&st):
		return v.whiteout(rel)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return v.leaf(rel, fds[0], base, &st)
	}
	subs := []int{}
	defer func() { closeFDs(subs) }()
	opaque := false
	for i, fd := range fds {
		sub, err := unix.Openat(fd, base, unix.O_RDONLY|unix.O_DIRECTORY|follow(v)|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT && i > 0 {
			continue
		}
		if err == unix.ENOTDIR || err == unix.ELOOP || err == unix.ENXIO {
			opaque = true // a whiteout or another thing below: it ends here
			break
		}
		if err != nil {
			return err
		}
		subs = append(subs, sub)
		if opaque = isOpaque(sub); opaque {
			break
		}
	}
	if len(subs) == 0 {
		return unix.ENOENT
	}
	if err := v.enter(rel, subs[0], &st, opaque); err != nil {
		return err
	}
	if err := mergeDir(subs, rel, v, depth+1); err != nil {
		return err
	}
	return v.leave()
}

// follow is what keeps a directory that was looked at before from having become
// a link; a copier may be told to do without.
func follow(v visitor) int {
	if c, ok := v.(*copier); ok {
		return c.noFollow()
	}
	return unix.O_NOFOLLOW
}

func isWhiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

func isOpaque(fd int) bool {
	var b [4]byte
	n, err := unix.Fgetxattr(fd, "user.overlay.opaque", b[:])
	return err == nil && n == 1 && b[0] == 'y'
}

// copier writes what it visits into an empty directory that can be an upper
// or lower directory itself.
type copier struct {
	dirs  []copied // from the root down
	links map[inode]string
	root  int

	noFollow func() int // flags for files, which may have changed into links or pipes
}

type copied struct {
	fd  int
	rel string
	st  unix.Stat_t
}

// copyUppers merges uppers (top first) into the empty directory dst.
func copyUppers(uppers []string, dst string, noFollow func() int) error {
	fd, err := unix.Open(dst, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	c := &copier{links: map[inode]string{}, root: fd, noFollow: noFollow}
	defer func() {
		for _, d := range c.dirs {
			unix.Close(d.fd)
		}
	}()
	return merge(uppers, c)
}

func (c *copier) at() int { return c.dirs[len(c.dirs)-1].fd }

func (c *copier) enter(rel string, at int, st *unix.Stat_t, opaque bool) error {
	var fd int
	var err error
	if rel == "." {
		fd, err = unix.FcntlInt(uintptr(c.root), unix.F_DUPFD_CLOEXEC, 3)
	} else {
		if err = unix.Mkdirat(c.at(), path.Base(rel), 0o700); err != nil {
			return copyError(err)
		}
		fd, err = unix.Openat(c.at(), path.Base(rel), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return copyError(err)
	}
	c.dirs = append(c.dirs, copied{fd, rel, *st})
	if opaque {
		if err := unix.Fsetxattr(fd, "user.overlay.opaque", []byte("y"), 0); err != nil {
			return copyError(err)
		}
	}
	copyXattrs(at, fd)
	return nil
}

func (c *copier) leave() error {
	d := c.dirs[len(c.dirs)-1]
	c.dirs = c.dirs[:len(c.dirs)-1]
	defer unix.Close(d.fd)
	if err := chown(d.fd, "", d.st.Uid, d.st.Gid); err != nil {
		return copyError(err)
	}
	if err := unix.Fchmod(d.fd, d.st.Mode&0o7777); err != nil {
		return copyError(err)
	}
	return copyError(copyTimes(d.fd, &d.st))
}

// copyError keeps a missing file of the copy from looking like a source that
// vanished.
func copyError(err error) error {
	if err == unix.ENOENT {
		return errors.New("the copy vanished while it was written")
	}
	return err
}

func (c *copier) whiteout(rel string) error {
	return copyError(unix.Mknodat(c.at(), path.Base(rel), unix.S_IFCHR, 0))
}

func (c *copier) leaf(rel string, dir int, base string, st *unix.Stat_t) error {
	to := c.at()
	if st.Nlink > 1 {
		key := inode{uint64(st.Dev), st.Ino}
		if first, ok := c.links[key]; ok {
			if err := unix.Linkat(c.root, first, to, base, 0); err == nil {
				return nil
			}
		}
		c.links[key] = rel
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := readlinkat(dir, base)
		if err != nil {
			return err
		}
		if err := unix.Symlinkat(target, to, base); err != nil {
			return copyError(err)
		}
		if err := chown(to, base, st.Uid, st.Gid); err != nil {
			return copyError(err)
		}
	case unix.S_IFREG:
		return c.file(dir, base, to, st)
	case unix.S_IFIFO, unix.S_IFSOCK:
		if err := unix.Mknodat(to, base, st.Mode&(unix.S_IFMT|0o7777), 0); err != nil {
			return copyError(err)
		}
		return copyError(chown(to, base, st.Uid, st.Gid))
	default:
		return nil
	}
	ts := []unix.Timespec{st.Atim, st.Mtim}
	return copyError(unix.UtimesNanoAt(to, base, ts, unix.AT_SYMLINK_NOFOLLOW))
}

func (c *copier) file(dir int, base string, to int, st *unix.Stat_t) error {
	src, err := unix.Openat(dir, base, unix.O_RDONLY|c.noFollow()|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP || err == unix.ENXIO {
		return unix.ENOENT
	}
	if err != nil {
		return err
	}
	defer unix.Close(src)
	var now unix.Stat_t
	if err := unix.Fstat(src, &now); err != nil || now.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.ENOENT // something else stands there since
	}
	dst, err := unix.Openat(to, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return copyError(err)
	}
	defer unix.Close(dst)
	if err := copyData(src, dst); err != nil {
		return copyError(err)
	}
	if err := chown(dst, "", st.Uid, st.Gid); err != nil {
		return copyError(err)
	}
	copyXattrs(src, dst)
	if err := unix.Fchmod(dst, st.Mode&0o7777); err != nil {
		return copyError(err)
	}
	return copyError(copyTimes(dst, st))
}

// copyData copies within the kernel; volumes in memory are file systems of
// their own, between which only sendfile works.
func copyData(src, dst int) error {
	for {
		n, err := unix.Sendfile(dst, src, nil, 1<<30)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil:
			return err
		case n == 0:
			return nil
		}
	}
}

func copyTimes(fd int, st *unix.Stat_t) error {
	return unix.UtimesNanoAt(fd, "", []unix.Timespec{st.Atim, st.Mtim}, unix.AT_EMPTY_PATH)
}

// copyXattrs copies the user's attributes, and capabilities, but not those that steer overlays.
func copyXattrs(src, dst int) {
	for k, v := range userXattrs(src) {
		_ = unix.Fsetxattr(dst, k, []byte(v), 0) // what does not fit is lost in a copy of this kind
	}
}

func userXattrs(fd int) map[string]string {
	names := make([]byte, 4096)
	n, err := unix.Flistxattr(fd, names)
	if err != nil || n == 0 {
		return nil
	}
	out := map[string]string{}
	for len(names[:n]) > 0 {
		i := slices.Index(names[:n], 0)
		if i < 0 {
			break
		}
		name := string(names[:i])
		names, n = names[i+1:], n-i-1
		if !visibleXattr(name) && name != image.Capability {
			continue
		}
		v := make([]byte, 4096)
		if m, err := unix.Fgetxattr(fd, name, v); err == nil {
			out[name] = string(v[:m])
		}
	}
	return out
}
