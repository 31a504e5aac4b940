//go:build !linux

package image

// tmpfsMagic marks no file system here.
const tmpfsMagic int64 = -1
