// Package cgroup puts a sandbox's processes under control groups, where this
// process may write any: version 2 that was delegated to it, version 1, or a
// hybrid of both. It works below the group that this process is in and never
// assumes that to be the root; it changes nothing above, except that version 2
// wants the processes of a group to move into a leaf before the group can
// divide its resources, which is done when all of them are ours.
//
// Names carry an owner that can be checked: a [Tree] keeps one directory in
// every hierarchy locked (flock) for as long as it lives. A directory whose
// lock is free was left by a process that was killed, and the next Open
// removes it. Nothing but sandboxes' processes is ever killed for that.
package cgroup

// Limits of a group. Zero means none.
type Limits struct {
	Memory int64   // bytes, resident; swap is none on top
	Pids   int64   // processes and threads
	CPUs   float64 // processors' worth of time
}

// Names of the controllers, as the kernel spells them.
const (
	Memory = "memory"
	Pids   = "pids"
	CPU    = "cpu"
)
