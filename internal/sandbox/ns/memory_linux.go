package ns

import (
	"strconv"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
)

// memoryInodes is how many names a directory in memory may hold: each costs
// the kernel memory that no size counts.
const memoryInodes = 1 << 20

func oneSource(m sandbox.Mount) bool {
	n := 0
	for _, given := range []bool{m.Layer != "", m.Host != "", m.Memory != 0} {
		if given {
			n++
		}
	}
	return n == 1
}

// memory is how many bytes of an empty directory a mount asks for; never more
// than a tree in memory may have, so that no command fills the machine.
func (b *Backend) memory(m sandbox.Mount) int64 {
	if m.Memory < 0 {
		return b.conf.TmpfsMax
	}
	return min(m.Memory, b.conf.TmpfsMax)
}

// memory makes an empty directory in memory, which anybody may write to.
func (k *keeper) memory(bytes int64) (int, error) {
	return newMount("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, mountOption{"mode", "1777"},
		mountOption{"size", strconv.FormatInt(max(bytes, 4096), 10)}, mountOption{"nr_inodes", strconv.Itoa(memoryInodes)})
}
