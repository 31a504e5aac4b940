package ns

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountOption is a key with a value, or a flag if the value is empty.
type mountOption struct{ key, value string }

// newMount makes a detached mount.
func newMount(fstype string, attrs int, options ...mountOption) (int, error) {
	fs, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open file system %s: %w", fstype, err)
	}
	defer unix.Close(fs)
	for _, o := range options {
		if o.value == "" {
			err = unix.FsconfigSetFlag(fs, o.key)
		} else {
			err = unix.FsconfigSetString(fs, o.key, o.value)
		}
		if err != nil {
			return -1, fmt.Errorf("configure %s %s=%s: %w%s", fstype, o.key, o.value, err, kernelSays(fs))
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("create %s: %w%s", fstype, err, kernelSays(fs))
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrs)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", fstype, err)
	}
	return m, nil
}

// kernelSays reads the reason that a file system left for a failure.
func kernelSays(fs int) string {
	var buf [512]byte
	if n, err := unix.Read(fs, buf[:]); err == nil && n > 0 {
		return " (" + strings.TrimSpace(string(buf[:n])) + ")"
	}
	return ""
}

// attach moves a detached mount to a path.
func attach(m int, path string) error {
	return unix.MoveMount(m, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// cloneTree is a detached copy of what an open path shows, with all that is
// mounted below it.
func cloneTree(fd int) (int, error) {
	return unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
}

// restrict takes rights from a detached mount and everything below it.
func restrict(m int, attrs int, readOnly bool) error {
	attr := unix.MountAttr{Attr_set: uint64(attrs), Propagation: unix.MS_PRIVATE}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return unix.MountSetattr(m, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
}

// overlay lays a stack of lower directories, top first, under upper.
func (k *keeper) overlay(lowers []string, upper, work string) (int, error) {
	attrs := k.treeAttrs()
	opts := []mountOption{{"userxattr", ""}, {"volatile", ""}, {"index", "off"}}
	for _, l := range lowers {
		opts = append(opts, mountOption{"lowerdir+", l})
	}
	if upper == "" {
		opts = append(opts[:1], opts[2:]...)
	} else {
		opts = append(opts, mountOption{"upperdir", upper}, mountOption{"workdir", work})
	}
	if !k.oldMounts {
		m, err := newMount("overlay", attrs, opts...)
		if err == nil || !errors.Is(err, unix.EINVAL) || len(lowers) == 0 {
			return m, err
		}
		// Before Linux 6.5 there was no "lowerdir+".
		old, oldErr := k.overlayBySyscall(lowers, upper, work)
		if oldErr != nil {
			return -1, err
		}
		k.oldMounts = true
		return old, nil
	}
	return k.overlayBySyscall(lowers, upper, work)
}

// maxMountData is what mount(2) reads of its options.
const maxMountData = 4095

// overlayBySyscall mounts the old way and takes the mount off its place again.
func (k *keeper) overlayBySyscall(lowers []string, upper, work string) (int, error) {
	data := "userxattr,index=off,lowerdir=" + strings.Join(lowers, ":")
	if upper != "" {
		data += ",volatile,upperdir=" + upper + ",workdir=" + work
	}
	if len(data) > maxMountData {
		return -1, fmt.Errorf("mount overlay: %d layers are more than this kernel takes", len(lowers))
	}
	k.place.Lock() // or one could take another's mount off it
	defer k.place.Unlock()
	if err := unix.Mount("overlay", "/o", "overlay", unix.MS_NOSUID|unix.MS_NODEV, data); err != nil {
		return -1, fmt.Errorf("mount overlay: %w", err)
	}
	m, err := unix.OpenTree(unix.AT_FDCWD, "/o", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if uerr := unix.Unmount("/o", unix.MNT_DETACH); err == nil {
		err = uerr
	}
	return m, err
}

// fdPath names an open file for calls that take paths only.
func fdPath(fd int) string { return "/host/proc/self/fd/" + strconv.Itoa(fd) }

// openat2 opens below dir as if dir were the root directory. Whoever renames
// in the tree meanwhile only makes it repeat.
func openat2(dir int, path string, flags uint64, mode uint32, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: resolve}
	if resolve != 0 { // 0 is for the hostile self-test alone: see keeper.beneath
		how.Resolve |= unix.RESOLVE_NO_MAGICLINKS
	}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(dir, path, how)
		if (err == unix.EAGAIN && tries < 1000) || err == unix.EINTR {
			continue
		}
		return fd, err
	}
}
