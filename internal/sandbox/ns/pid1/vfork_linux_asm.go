//go:build linux && (amd64 || arm64)

package pid1

import "syscall"

// shared lets the child run in this process's memory until it executes its
// program: nothing is copied.
const shared = syscall.CLONE_VM

// vfork clones; the caller sleeps until the child has executed or ended. With
// CLONE_PIDFD, pidfd receives a descriptor of the child.
//
//go:noescape
func vfork(flags uintptr, pidfd *int32) (pid, errno uintptr)
