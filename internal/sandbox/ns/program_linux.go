package ns

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// readOnlyProgram opens this program once more, through a mount that nobody can
// write. Programs of a sandbox can come to the file that their init was started
// from: a script with the interpreter /proc/self/exe runs it, in a process that
// others may look into (CVE-2019-5736). Where assay belongs to the user that
// sandboxes run as, they could change its mode and more.
//
// Without a path to it (it was replaced, or lies where the sandboxes' user
// cannot go, and so is not theirs) given is used as it is.
func (k *keeper) readOnlyProgram(given int) int {
	path, err := os.Readlink(fdPath(given))
	if err != nil {
		return given
	}
	fd, err := openat2(k.host, strings.TrimPrefix(path, "/"), unix.O_PATH, 0, unix.RESOLVE_IN_ROOT)
	if err != nil {
		return given
	}
	defer unix.Close(fd)
	var a, b unix.Stat_t
	if unix.Fstat(given, &a) != nil || unix.Fstat(fd, &b) != nil || a.Dev != b.Dev || a.Ino != b.Ino {
		return given
	}
	m, err := cloneTree(fd)
	if err != nil {
		return given
	}
	defer unix.Close(m)
	const at = "/program"
	if restrict(m, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, true) != nil || os.WriteFile(at, nil, 0o644) != nil || attach(m, at) != nil {
		return given
	}
	locked, err := unix.Open(at, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return given
	}
	return locked
}
