//go:build !linux

package image

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Nothing mounts a layer on these systems, so the marks of the overlay file
// system are left out: an empty file stands for a whiteout.

func whiteout(dir *os.Root, name string) (asXattr bool, err error) {
	f, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	return false, f.Close()
}

const canFIFO = false // os.Root cannot make one

func mkfifo(*os.Root, string) error { return nil }

func setOverlay(*os.File, string, string) error { return nil }

func setXattr(*os.File, string, string) error { return nil }

func syncTree(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, fs.ErrInvalid) {
		return nil
	}
	unix.Sync()
	return err
}

func nodeOf(fi fs.FileInfo) statNode {
	st := fi.Sys().(*syscall.Stat_t)
	return statNode{inode{uint64(st.Dev), st.Ino}, uint64(st.Nlink), int(st.Uid), int(st.Gid),
		unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))}
}

func xattrs(*os.File) (map[string]string, error) { return nil, nil }
