package pid1

import (
	"syscall"
	"unsafe"
)

// System calls since 424 have the same number on every architecture.
const (
	sysOpenTree     = 428
	sysMoveMount    = 429
	sysFsopen       = 430
	sysFsconfig     = 431
	sysFsmount      = 432
	sysCloseRange   = 436
	sysOpenat2      = 437
	sysMountSetattr = 442

	oPath          = 0x200000
	atEmptyPath    = 0x1000
	openTreeClone  = 1
	moveFromEmpty  = 0x4
	moveToEmpty    = 0x40
	fsopenCloexec  = 1
	fsmountCloexec = 1
	fsconfigString = 1
	fsconfigCreate = 6
	mountNoSuid    = 0x2
	mountNoDev     = 0x4
	mountNoExec    = 0x8
	mountReadOnly  = 0x1
	mntDetach      = 2
	mfdCloexec     = 1
	resolveInRoot  = 0x10
	resolveNoMagic = 0x2
)

// failure names the step that the kernel refused.
type failure struct {
	step string
	err  syscall.Errno
}

func (f *failure) Error() string { return f.step + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(step string, e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return &failure{step, e}
}

func cstr(s string) uintptr { return uintptr(unsafe.Pointer(cbytes(s))) }

func cbytes(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// openat2 opens below dir as if dir were the root.
func openat2(dir int, path string, flags uint64, mode uint64) (int, syscall.Errno) {
	how := struct{ flags, mode, resolve uint64 }{flags | syscall.O_CLOEXEC, mode, resolveInRoot | resolveNoMagic}
	var short [64]byte // usual names are not worth a piece of the heap
	p := &short[0]
	if copy(short[:len(short)-1], path) < len(path) {
		p = cbytes(path)
	}
	for {
		fd, _, e := syscall.Syscall6(sysOpenat2, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if e == syscall.EAGAIN || e == syscall.EINTR {
			continue // somebody renames in the tree; nobody does for long
		}
		return int(fd), e
	}
}

// newMount makes a detached mount of a file system that needs no device.
func newMount(fstype string, attrs uintptr, options ...string) (int, error) {
	fs, _, e := syscall.Syscall(sysFsopen, cstr(fstype), fsopenCloexec, 0)
	if e != 0 {
		return -1, failed("open file system "+fstype, e)
	}
	defer syscall.Close(int(fs))
	for _, o := range options {
		k, v := cut(o)
		kp, vp := cbytes(k), cbytes(v)
		if _, _, e = syscall.Syscall6(sysFsconfig, fs, fsconfigString, uintptr(unsafe.Pointer(kp)), uintptr(unsafe.Pointer(vp)), 0, 0); e != 0 {
			return -1, failed("configure "+fstype+" "+o, e)
		}
	}
	if _, _, e = syscall.Syscall6(sysFsconfig, fs, fsconfigCreate, 0, 0, 0, 0); e != 0 {
		return -1, failed("create "+fstype, e)
	}
	m, _, e := syscall.Syscall(sysFsmount, fs, fsmountCloexec, attrs)
	if e != 0 {
		return -1, failed("mount "+fstype, e)
	}
	return int(m), nil
}

// attach moves a detached mount onto what target, an open path, refers to.
func attach(mount, target int) syscall.Errno {
	empty := cbytes("")
	_, _, e := syscall.Syscall6(sysMoveMount, uintptr(mount), uintptr(unsafe.Pointer(empty)), uintptr(target), uintptr(unsafe.Pointer(empty)), moveFromEmpty|moveToEmpty, 0)
	return e
}

// bindAt mounts what src (an open path of this namespace) shows onto target.
func bindAt(src, target int) syscall.Errno {
	empty := cbytes("")
	m, _, e := syscall.Syscall(sysOpenTree, uintptr(src), uintptr(unsafe.Pointer(empty)), openTreeClone|atEmptyPath|syscall.O_CLOEXEC)
	if e != 0 {
		return e
	}
	defer syscall.Close(int(m))
	return attach(int(m), target)
}

// dirAt opens a directory of the tree for mounting on, and makes it with all
// its parents if it is missing.
func dirAt(root int, path string) (int, syscall.Errno) {
	fd, e := openat2(root, path, oPath|syscall.O_DIRECTORY, 0)
	if e != syscall.ENOENT {
		return fd, e
	}
	if e = mkparents(root, path); e != 0 {
		return -1, e
	}
	at, base, e := parentAt(root, path)
	if e != 0 {
		return -1, e
	}
	defer syscall.Close(at)
	if err := syscall.Mkdirat(at, base, 0o755); err != nil && err != syscall.EEXIST {
		return -1, err.(syscall.Errno)
	}
	return openat2(root, path, oPath|syscall.O_DIRECTORY, 0)
}

// fileAt opens a file of the tree for mounting on, and makes it if missing.
func fileAt(root int, path string) (int, syscall.Errno) {
	fd, e := openat2(root, path, oPath, 0)
	if e != syscall.ENOENT {
		return fd, e
	}
	if e = mkparents(root, path); e != 0 {
		return -1, e
	}
	if fd, e = openat2(root, path, syscall.O_CREAT|syscall.O_WRONLY, 0o644); e != 0 {
		return -1, e
	}
	syscall.Close(fd)
	return openat2(root, path, oPath, 0)
}

func mkparents(root int, path string) syscall.Errno {
	i := lastSlash(path)
	if i <= 0 {
		return 0
	}
	fd, e := dirAt(root, path[:i])
	if e == 0 {
		syscall.Close(fd)
	}
	return e
}

func parentAt(root int, path string) (int, string, syscall.Errno) {
	dir, base := ".", path
	if i := lastSlash(path); i >= 0 {
		dir, base = path[:i+1], path[i+1:]
	}
	fd, e := openat2(root, dir, oPath|syscall.O_DIRECTORY, 0)
	return fd, base, e
}

// isDir reports whether an open path is a directory.
func isDir(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFDIR
}

// cut splits at the first "=".
func cut(s string) (string, string) {
	for i := range len(s) {
		if s[i] == '=' {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// lastSlash is the last one of a clean path, or -1.
func lastSlash(s string) int {
	i := len(s) - 1
	for i >= 0 && s[i] != '/' {
		i--
	}
	return i
}
