package inside

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var errLeaves = errors.New("it leaves the directory it is put into")

// put unpacks a tar stream below dst. Programs may move what is there
// meanwhile: os.Root resolves every directory below dst, and every last
// component is made anew.
func put(dst string, in io.Reader) error {
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dst)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacker{root: root, all: path.Clean(dst) == "/", times: map[string]time.Time{}}
	defer u.closeDir()
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
			return fmt.Errorf("put %.200q into %s: %w", name, dst, err)
		}
	}
	for rel, t := range u.times { // at last: filling a directory changes its time
		_ = root.Chtimes(rel, t, t)
	}
	_, err = io.Copy(io.Discard, in) // what follows the end mark
	return err
}

const maxTimes = 100_000 // directories whose time is remembered

type unpacker struct {
	root  *os.Root
	all   bool // it is the whole tree: links may lead anywhere
	times map[string]time.Time

	at  string
	dir *os.File
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

func (u *unpacker) closeDir() {
	if u.dir != nil {
		u.dir.Close()
		u.dir = nil
	}
}

// open returns the descriptor of a directory, made if missing.
func (u *unpacker) open(rel string) (int, error) {
	if u.dir != nil && u.at == rel {
		return int(u.dir.Fd()), nil
	}
	u.closeDir()
	way := rel
	if u.all { // os.Root takes absolute links for a way out, and here nothing is out
		if real, err := filepath.EvalSymlinks("/" + rel); err == nil {
			way = strings.TrimPrefix(real, "/")
		}
		if way == "" {
			way = "."
		}
	}
	if err := u.root.MkdirAll(way, 0o755); err != nil {
		return -1, err
	}
	f, err := u.root.Open(way)
	if err != nil {
		return -1, err
	}
	if isKernelTree(int(f.Fd())) {
		f.Close()
		return -1, errors.New("it leads into a file system of the kernel")
	}
	u.at, u.dir = rel, f
	return int(f.Fd()), nil
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	rel, err := entryName(h.Name)
	if err != nil || h.Typeflag == tar.TypeXGlobalHeader {
		return err
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
		if len(u.times) < maxTimes {
			u.times[rel] = h.ModTime
		}
		return makeDir(dir, base, mode)
	case tar.TypeReg, tar.TypeGNUSparse:
		return writeFile(dir, base, mode, h, content)
	case tar.TypeSymlink:
		if err := clearName(dir, base); err != nil {
			return err
		}
		return unix.Symlinkat(h.Linkname, dir, base)
	case tar.TypeLink:
		return u.link(dir, base, h.Linkname)
	case tar.TypeFifo:
		if err := clearName(dir, base); err != nil {
			return err
		}
		return unix.Mknodat(dir, base, unix.S_IFIFO|mode, 0)
	}
	return fmt.Errorf("entries of type %q are not put into a sandbox", h.Typeflag)
}

func clearName(dir int, base string) error {
	if err := unix.Unlinkat(dir, base, 0); err != unix.ENOENT {
		return err
	}
	return nil
}

// makeDir makes a directory or gives one its mode; what is none goes.
func makeDir(dir int, base string, mode uint32) error {
	err := unix.Mkdirat(dir, base, mode)
	if err == unix.EEXIST {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
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
	return unix.Fchmod(fd, mode)
}

func writeFile(dir int, base string, mode uint32, h *tar.Header, content io.Reader) error {
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, base, flags, 0o600)
	if err == unix.EEXIST {
		if err = clearName(dir, base); err == nil {
			fd, err = unix.Openat(dir, base, flags, 0o600)
		}
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	for key, v := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, paxXattr); ok && strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.") {
			_ = unix.Fsetxattr(fd, name, []byte(v), 0) // a file system without them keeps the content
		}
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	if h.ModTime.Unix() < 0 || h.ModTime.IsZero() {
		return nil
	}
	ts := unix.NsecToTimespec(h.ModTime.UnixNano())
	return unix.UtimesNanoAt(fd, "", []unix.Timespec{ts, ts}, unix.AT_EMPTY_PATH)
}

const paxXattr = "SCHILY.xattr."

// link makes a hard link to an entry of the same archive.
func (u *unpacker) link(dir int, base, to string) error {
	rel, err := entryName(to)
	if err != nil {
		return fmt.Errorf("hard link to %.200q: %w", to, errLeaves)
	}
	from, err := u.root.Open(path.Dir(rel))
	if err != nil {
		return fmt.Errorf("hard link to %.200q: %w", to, err)
	}
	defer from.Close()
	if isKernelTree(int(from.Fd())) {
		return errors.New("it leads into a file system of the kernel")
	}
	if err := clearName(dir, base); err != nil {
		return err
	}
	if err := unix.Linkat(int(from.Fd()), path.Base(rel), dir, base, 0); err != nil {
		return fmt.Errorf("hard link to %.200q: %w", to, err)
	}
	return nil
}
