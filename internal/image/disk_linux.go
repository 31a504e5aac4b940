package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// whiteout makes the mark that hides a lower name. It reports whether it had
// to use the form for file systems that refuse devices, whose directory then
// needs a mark of its own.
func whiteout(dir *os.Root, name string) (asXattr bool, err error) {
	d, err := dir.Open(".")
	if err != nil {
		return false, err
	}
	defer d.Close()
	err = unix.Mknodat(int(d.Fd()), name, unix.S_IFCHR, 0)
	if err == nil {
		return false, nil
	}
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EOPNOTSUPP) {
		return false, &fs.PathError{Op: "mknod", Path: name, Err: err}
	}
	return true, xattrWhiteout(dir, name)
}

func xattrWhiteout(dir *os.Root, name string) error {
	f, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return setOverlay(f, "whiteout", "")
}

const canFIFO = true

func mkfifo(dir *os.Root, name string) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Mknodat(int(d.Fd()), name, unix.S_IFIFO|0o600, 0)
}

// setOverlay sets an attribute that an overlay mount with userxattr reads.
func setOverlay(f *os.File, name, value string) error {
	if err := unix.Fsetxattr(int(f.Fd()), "user.overlay."+name, []byte(value), 0); err != nil {
		return fmt.Errorf("mark %q as overlay %s: %w (the file system under the store needs user extended attributes)",
			f.Name(), name, err)
	}
	return nil
}

// setXattr is a convenience for programs in the sandbox: the manifest has the
// attribute whether the file system takes it or not.
func setXattr(f *os.File, name, value string) error {
	err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.E2BIG) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

func syncTree(dir *os.File) error { return unix.Syncfs(int(dir.Fd())) }

func nodeOf(fi fs.FileInfo) statNode {
	st := fi.Sys().(*syscall.Stat_t)
	return statNode{inode{st.Dev, st.Ino}, uint64(st.Nlink), int(st.Uid), int(st.Gid), unix.Major(st.Rdev), unix.Minor(st.Rdev)}
}

// xattrs reads the attributes that are content: not those that file systems
// and security modules of this machine add.
func xattrs(f *os.File) (map[string]string, error) {
	buf := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(f.Fd()), buf)
	if errors.Is(err, unix.EOPNOTSUPP) || n == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("attributes of %s: %w", f.Name(), err)
	}
	all := map[string]string{}
	for k := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if reservedXattr(k) || !strings.HasPrefix(k, "user.") && k != "security.capability" {
			continue
		}
		val := make([]byte, 64<<10)
		n, err := unix.Fgetxattr(int(f.Fd()), k, val)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("attribute %q of %s: %w", k, f.Name(), err)
		}
		all[k] = string(val[:n])
	}
	return all, nil
}
