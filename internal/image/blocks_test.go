package image_test

import (
	"io/fs"
	"syscall"
)

// blocks are the 512-byte blocks that a file uses.
func blocks(fi fs.FileInfo) int64 { return fi.Sys().(*syscall.Stat_t).Blocks }
