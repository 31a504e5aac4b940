package ns

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
)

// streamBuffer joins a stream's many small pieces, each of which would wake
// the other side; it is as much as a pipe holds.
const streamBuffer = 64 << 10

// put unpacks a tar stream. The tree below is somebody else's while it does:
// every path is resolved by the kernel below dst, and every last component is
// made anew, so that no link leads a write anywhere.
func (k *keeper) put(q request, pipe *os.File) error {
	b, leave, err := k.enter(q.Sandbox, pipe)
	if err != nil {
		return err
	}
	defer leave()
	dst, err := k.mkdirIn(b.root, inTree(q.Path))
	if err != nil {
		return fmt.Errorf("put into %s: %w", q.Path, err)
	}
	defer unix.Close(dst)
	u := &unpacker{k: k, real: b.real, dst: dst, resolve: k.beneath(unix.RESOLVE_BENEATH), dirs: map[string]time.Time{}, buf: make([]byte, 128<<10)}
	if inTree(q.Path) == "" {
		u.resolve = k.beneath(unix.RESOLVE_IN_ROOT) // nothing is outside of "/", absolute links are fine
	}
	in := bufio.NewReaderSize(pipe, streamBuffer)
	tr := tar.NewReader(in)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = u.entry(h, tr)
		}
		if err != nil {
			name := ""
			if h != nil {
				name = h.Name
			}
			return fmt.Errorf("put %.200q into %s: %w", name, q.Path, err)
		}
	}
	u.closeDir()
	u.dirTimes()
	_, err = io.Copy(io.Discard, in) // what follows the end mark
	return err
}

// mkdirIn opens a directory of the tree and makes what is missing of it.
func (k *keeper) mkdirIn(root int, rel string) (int, error) {
	if rel == "" {
		rel = "."
	}
	fd, err := k.openTreeDir(root, rel)
	if err != unix.ENOENT {
		return fd, err
	}
	parent, err := k.mkdirIn(root, path.Dir(rel))
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, path.Base(rel), 0o755); err != nil && err != unix.EEXIST {
		return -1, err
	}
	return k.openTreeDir(root, rel)
}

func (k *keeper) openTreeDir(root int, rel string) (int, error) {
	fd, err := openat2(root, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0, k.beneath(unix.RESOLVE_IN_ROOT))
	if err != nil {
		return -1, err
	}
	if err := k.refuseKernelTrees(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// refuseKernelTrees keeps the keeper, whose rights reach further than the
// sandbox's, from writing or reading where files mean actions.
func (k *keeper) refuseKernelTrees(fd int) error {
	if k.without(sandbox.DefKernelTrees) {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	switch st.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return errKernelTree
	}
	return nil
}

var errKernelTree = errors.New("it leads into a file system of the kernel")

type unpacker struct {
	k       *keeper
	dst     int
	resolve uint64
	dirs    map[string]time.Time // to be set when nothing is written any more
	buf     []byte
	real    bool // owners are those of the archive

	at  string // the directory that dir is open on
	dir int
	has bool
}

// maxDirTimes bounds what is remembered of an archive.
const maxDirTimes = 100_000

var errLeaves = errors.New("it leaves the directory it is put into")

// name cleans an entry's name and refuses what points elsewhere.
func (u *unpacker) name(name string) (string, error) {
	if u.k.without(sandbox.DefTreePaths) {
		return path.Clean(name), nil
	}
	return entryName(name)
}

func entryName(name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return "", errLeaves
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errLeaves
		}
	}
	if strings.ContainsRune(name, 0) {
		return "", errors.New("its name holds a zero byte")
	}
	return path.Clean(name), nil
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	rel, err := u.name(h.Name)
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if rel == "." {
		if h.Typeflag != tar.TypeDir {
			return errors.New("it is not a directory")
		}
		return nil // dst is as the sandbox has it
	}
	dir, err := u.open(path.Dir(rel))
	if err != nil {
		return err
	}
	base, mode := path.Base(rel), uint32(h.Mode&0o7777)
	switch h.Typeflag {
	case tar.TypeDir:
		if len(u.dirs) < maxDirTimes {
			u.dirs[rel] = h.ModTime
		}
		return u.makeDir(dir, base, mode, h)
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(dir, base, mode, h, content)
	case tar.TypeSymlink:
		if err := clearName(dir, base); err != nil {
			return err
		}
		if err := unix.Symlinkat(h.Linkname, dir, base); err != nil {
			return err
		}
		return u.own(dir, base, h)
	case tar.TypeLink:
		return u.link(dir, base, h.Linkname)
	case tar.TypeFifo:
		if err := clearName(dir, base); err != nil {
			return err
		}
		if err := unix.Mknodat(dir, base, unix.S_IFIFO|mode, 0); err != nil {
			return err
		}
		return u.own(dir, base, h)
	}
	return fmt.Errorf("entries of type %q are not put into a sandbox", h.Typeflag)
}

// open returns the entry's directory, made if missing; trees come directory by
// directory, so it is kept.
func (u *unpacker) open(rel string) (int, error) {
	if u.has && u.at == rel {
		return u.dir, nil
	}
	u.closeDir()
	fd, err := u.mkdir(rel)
	if err != nil {
		return -1, err
	}
	u.at, u.dir, u.has = rel, fd, true
	return fd, nil
}

func (u *unpacker) closeDir() {
	if u.has {
		unix.Close(u.dir)
		u.has = false
	}
}

func (u *unpacker) mkdir(rel string) (int, error) {
	fd, err := openat2(u.dst, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0, u.resolve)
	switch err {
	case nil:
		if err := u.k.refuseKernelTrees(fd); err != nil {
			unix.Close(fd)
			return -1, err
		}
		return fd, nil
	case unix.EXDEV:
		return -1, errLeaves
	case unix.ENOENT:
	default:
		return -1, err
	}
	parent, err := u.mkdir(path.Dir(rel))
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, path.Base(rel), 0o755); err != nil && err != unix.EEXIST {
		return -1, err
	}
	fd, err = openat2(u.dst, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0, u.resolve)
	if err == unix.EXDEV {
		err = errLeaves
	}
	return fd, err
}

// own gives an entry the archive's owner, where owners are real. A descriptor
// goes without a name.
func (u *unpacker) own(dir int, base string, h *tar.Header) error {
	if !u.real {
		return nil
	}
	return chown(dir, base, uint32(inside(h.Uid, u.k.conf.IDs)), uint32(inside(h.Gid, u.k.conf.IDs)))
}

// makeDir makes a directory or gives one its mode; a link in its place goes.
func (u *unpacker) makeDir(dir int, base string, mode uint32, h *tar.Header) error {
	err := unix.Mkdirat(dir, base, mode)
	if err == unix.EEXIST {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
		case unix.S_IFLNK: // GNU tar keeps a link to a directory; we keep what the archive says
			fallthrough
		default:
			if err := unix.Unlinkat(dir, base, 0); err != nil {
				return err
			}
			if err := unix.Mkdirat(dir, base, mode); err != nil {
				return err
			}
		}
	} else if err != nil {
		return err
	}
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := u.own(fd, "", h); err != nil {
		return err
	}
	return unix.Fchmod(fd, mode)
}

// clearName makes room for something that is no directory.
func clearName(dir int, base string) error {
	err := unix.Unlinkat(dir, base, 0)
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// file writes a file's content.
func (u *unpacker) file(dir int, base string, mode uint32, h *tar.Header, content io.Reader) error {
	fd, err := u.create(dir, base)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		n, err := io.ReadFull(content, u.buf)
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return err
		}
		if err := writeAll(fd, u.buf[:n]); err != nil {
			return err
		}
		if last {
			return u.finish(fd, mode, h)
		}
	}
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (u *unpacker) create(dir int, base string) (int, error) {
	flags := unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if u.k.without(sandbox.DefTreePaths) {
		flags = unix.O_CREAT | unix.O_TRUNC | unix.O_WRONLY | unix.O_CLOEXEC
	}
	fd, err := unix.Openat(dir, base, flags, 0o600)
	if err == unix.EEXIST {
		if err = clearName(dir, base); err == nil {
			fd, err = unix.Openat(dir, base, flags, 0o600)
		}
	}
	return fd, err
}

// finish sets what a file has besides its content.
func (u *unpacker) finish(fd int, mode uint32, h *tar.Header) error {
	for key, v := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, "SCHILY.xattr.")
		if ok && strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.") {
			_ = unix.Fsetxattr(fd, name, []byte(v), 0) // a file system without them keeps the content
		}
	}
	if err := u.own(fd, "", h); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	return setTime(fd, h.ModTime)
}

func setTime(fd int, t time.Time) error {
	if t.IsZero() || t.Unix() < 0 {
		return nil
	}
	ts := unix.NsecToTimespec(t.UnixNano())
	// An empty path means the descriptor itself.
	return unix.UtimesNanoAt(fd, "", []unix.Timespec{ts, ts}, unix.AT_EMPTY_PATH)
}

// link makes a hard link to an entry of the same archive.
func (u *unpacker) link(dir int, base, to string) error {
	rel, err := u.name(to)
	if err != nil {
		return fmt.Errorf("hard link to %.200q: %w", to, errLeaves)
	}
	from, err := openat2(u.dst, path.Dir(rel), unix.O_RDONLY|unix.O_DIRECTORY, 0, u.resolve)
	if err == unix.EXDEV {
		return fmt.Errorf("hard link to %.200q: %w", to, errLeaves)
	}
	if err != nil {
		return fmt.Errorf("hard link to %.200q: %w", to, err)
	}
	defer unix.Close(from)
	if err := u.k.refuseKernelTrees(from); err != nil {
		return err
	}
	if err := clearName(dir, base); err != nil {
		return err
	}
	if err := unix.Linkat(from, path.Base(rel), dir, base, 0); err != nil {
		return fmt.Errorf("hard link to %.200q: %w", to, err)
	}
	return nil
}

// dirTimes sets the directories' times at last; whoever moved one meanwhile
// has the time of the move.
func (u *unpacker) dirTimes() {
	for rel, t := range u.dirs {
		fd, err := openat2(u.dst, rel, unix.O_RDONLY|unix.O_DIRECTORY, 0, u.resolve|unix.RESOLVE_NO_SYMLINKS)
		if err == nil {
			_ = setTime(fd, t)
			unix.Close(fd)
		}
	}
}
