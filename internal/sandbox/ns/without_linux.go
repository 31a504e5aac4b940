package ns

import (
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/pid1"
)

// without reports whether a wall was taken down; see Config.Without.
func (c Config) without(d sandbox.Defences) bool { return c.Without&d != 0 }

func (k *keeper) without(d sandbox.Defences) bool { return k.conf.Without&d != 0 }

// namespacesOf are the namespaces of an init. User, mount and process
// namespaces are how it works at all and stay.
func namespacesOf(without sandbox.Defences) uintptr {
	flags := uintptr(initFlags)
	for d, f := range map[sandbox.Defences]uintptr{
		sandbox.DefNet: unix.CLONE_NEWNET, sandbox.DefIPC: unix.CLONE_NEWIPC,
		sandbox.DefUTS: unix.CLONE_NEWUTS, sandbox.DefCgroupNS: unix.CLONE_NEWCGROUP,
	} {
		if without&d != 0 {
			flags &^= f
		}
	}
	return flags
}

// treeAttrs are the attributes of a tree's mounts.
func (k *keeper) treeAttrs() int {
	if k.without(sandbox.DefMountAttrs) {
		return 0
	}
	return unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
}

// volumeOptions are those of a volume in memory.
func (k *keeper) volumeOptions(bytes, inodes int64) []mountOption {
	o := []mountOption{{"mode", "700"}}
	if k.without(sandbox.DefDisk) {
		return append(o, mountOption{"size", "0"}, mountOption{"nr_inodes", "0"}) // no limit
	}
	return append(o, volumeSize{bytes, inodes}.options()...)
}

// beneath is how the keeper resolves paths in a tree: as asked, or without its
// wall as the kernel does for everybody.
func (k *keeper) beneath(resolve uint64) uint64 {
	if k.without(sandbox.DefTreePaths) {
		return 0
	}
	return resolve
}

// noFollow are the flags of a last component that was looked at before: the
// tree may have changed since.
func (k *keeper) noFollow() int {
	if k.without(sandbox.DefHaste) {
		time.Sleep(50 * time.Microsecond)
	}
	if k.without(sandbox.DefTreePaths) {
		return 0
	}
	return unix.O_NOFOLLOW | unix.O_NONBLOCK
}

// The init knows these bits by its own names: it depends on no other package.
var (
	_ = [1]int{}[uint64(sandbox.DefDeafInit)^pid1.WithoutDeafness]
	_ = [1]int{}[uint64(sandbox.DefDumpable)^pid1.WithoutDumpable]
	_ = [1]int{}[uint64(sandbox.DefKeyring)^pid1.WithoutKeyring]
	_ = [1]int{}[uint64(sandbox.DefNestedNS)^pid1.WithoutNestedNS]
	_ = [1]int{}[uint64(sandbox.DefMaskProc)^pid1.WithoutMaskProc]
	_ = [1]int{}[uint64(sandbox.DefReadOnlyProc)^pid1.WithoutReadOnlyProc]
	_ = [1]int{}[uint64(sandbox.DefOldRoot)^pid1.WithoutOldRoot]
	_ = [1]int{}[uint64(sandbox.DefCaps)^pid1.WithoutCaps]
	_ = [1]int{}[uint64(sandbox.DefNoNewPrivs)^pid1.WithoutNoNewPrivs]
	_ = [1]int{}[uint64(sandbox.DefDescriptors)^pid1.WithoutDescriptors]
	_ = [1]int{}[uint64(sandbox.DefSeccomp)^pid1.WithoutSeccomp]
	_ = [1]int{}[uint64(sandbox.DefDeath)^pid1.WithoutDeath]
	_ = [1]int{}[uint64(sandbox.DefNet)^pid1.WithoutNet]
	_ = [1]int{}[uint64(sandbox.DefIPC)^pid1.WithoutIPC]
	_ = [1]int{}[uint64(sandbox.DefUTS)^pid1.WithoutUTS]
	_ = [1]int{}[uint64(sandbox.DefTreePaths)^pid1.WithoutTreePaths]
	_ = [1]int{}[uint64(sandbox.DefShare)^pid1.WithoutShare]
)
