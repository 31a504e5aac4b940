package image

import "golang.org/x/sys/unix"

// tmpfsMagic marks a file system in memory.
const tmpfsMagic int64 = unix.TMPFS_MAGIC
