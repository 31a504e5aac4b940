package ns

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAside is how many names of a tree's root are moved one by one. A root of
// more is rare, and then it takes as long to wait for its overlay to end.
const maxAside = 512

// putAside moves what was written to a directory of another name, which no
// overlay knows as its upper one. An overlay takes a millisecond for a thousand
// files to end, and until then the kernel complains in its log about every
// other overlay that has the same directory for a layer. It reports whether it
// did so: else the volume is as it was. Nobody else uses the tree.
func (v *volume) putAside() (bool, error) {
	names, err := namesOf(v.upper(), maxAside)
	if err != nil || names == nil {
		return false, err
	}
	from, to := v.upper(), v.path+"/k"
	if err := os.Mkdir(to, 0o700); err != nil {
		return false, fmt.Errorf("put written files aside: %w", err)
	}
	moved := 0
	for _, n := range names {
		if err = unix.Rename(from+"/"+n, to+"/"+n); err != nil {
			break
		}
		moved++
	}
	if err == nil {
		err = likeDirectory(from, to)
	}
	if err == nil {
		v.kept = true
		return true, nil
	}
	for _, n := range names[:moved] {
		if back := unix.Rename(to+"/"+n, from+"/"+n); back != nil {
			return false, fmt.Errorf("put written files aside: %w", errors.Join(err, back))
		}
	}
	_ = os.Remove(to) // it is empty, and goes with the volume
	return false, nil
}

// namesOf lists a directory of up to so many names; nil: it has more.
func namesOf(dir string, most int) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names := []string{}
	for {
		some, err := d.Readdirnames(most)
		names = append(names, some...)
		switch {
		case len(names) > most:
			return nil, nil
		case len(some) == 0:
			return names, nil // err is io.EOF
		case err != nil:
			return nil, err
		}
	}
}

// likeDirectory gives a directory another one's attributes, owner, mode and times.
func likeDirectory(from, to string) error {
	var st unix.Stat_t
	if err := unix.Stat(from, &st); err != nil {
		return err
	}
	names, err := whole(func(buf []byte) (int, error) { return unix.Listxattr(from, buf) })
	if err != nil {
		return err
	}
	for name := range strings.FieldsFuncSeq(string(names), func(c rune) bool { return c == 0 }) {
		val, err := whole(func(buf []byte) (int, error) { return unix.Getxattr(from, name, buf) })
		if err == nil {
			err = unix.Setxattr(to, name, val, 0)
		}
		if err != nil {
			return err
		}
	}
	if st.Uid != 0 || st.Gid != 0 { // there are others only where ids are mapped
		if err := unix.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := unix.Chmod(to, st.Mode&0o7777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{st.Atim, st.Mtim}, 0)
}

// whole reads what a call returns with its size, of something that nobody changes.
func whole(read func([]byte) (int, error)) ([]byte, error) {
	n, err := read(nil)
	if err != nil || n == 0 {
		return nil, err
	}
	buf := make([]byte, n)
	n, err = read(buf)
	return buf[:max(n, 0)], err
}
