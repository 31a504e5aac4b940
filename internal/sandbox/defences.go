package sandbox

import (
	"slices"
	"strings"
)

// Defences is a set of the walls of a backend. The hostile self-test takes some
// of them down inside another sandbox, to show that its attacks have teeth: an
// attack that fails with and without a wall says nothing about it. Nothing
// else ever takes one down, and no flag of a command leads to it.
type Defences uint64

// The values are told to a sandbox's first process as they are.
const (
	DefDeafInit     Defences = 1 << iota // the first process hears no signal
	DefDumpable                          // the first process cannot be traced or looked into
	DefKeyring                           // the starter's keys stay out
	DefNestedNS                          // no further user namespaces
	DefMaskProc                          // parts of /proc are hidden
	DefReadOnlyProc                      // settings in /proc cannot be written
	DefOldRoot                           // what was the root before is let go
	DefCaps                              // capabilities beyond Docker's default are dropped
	DefNoNewPrivs                        // no program gains rights by being executed
	DefDescriptors                       // no descriptor but 0, 1 and 2 is inherited
	DefSeccomp                           // system calls are filtered
	DefDeath                             // nothing lives on when a tree is frozen
	DefNet                               // a network namespace of its own
	DefIPC                               // an IPC namespace of its own
	DefUTS                               // a host name of its own
	DefCgroupNS                          // a view of its own of control groups
	DefMountAttrs                        // no devices and setid programs of mounts
	DefReadOnly                          // layers and read-only mounts cannot be written
	DefPids                              // a limit of processes
	DefFiles                             // a limit of open files
	DefCore                              // no core dumps, which the machine would handle
	DefDisk                              // a size and a number of files for a tree
	DefMemory                            // a limit of memory
	DefTreePaths                         // the host copies beneath the tree's root, follows no link, opens no pipe
	DefKernelTrees                       // the host copies from no file system of the kernel
	DefCopyCaps                          // the host stops copying at a size, a depth and a number
	DefRelayCap                          // a limit of connections to relays
	DefHaste                             // no pause between look and use; it holds nothing, but makes a race short
	DefProgram                           // the program of the first process cannot be changed
	DefShare                             // a share of what the kernel counts for a user
	DefArguments                         // a limit of a program's arguments
	DefOutput                            // a limit of the output that is kept
	DefEgress                            // what leaves goes through a gate that judges
	defEnd
)

// AllDefences takes everything down that can be.
const AllDefences = defEnd - 1

func defenceNames() []string {
	return []string{"deaf init", "not dumpable", "keyring", "no nested namespaces", "masked proc", "read-only proc",
		"old root gone", "capabilities", "no new privileges", "descriptors", "seccomp", "death before freeze",
		"network namespace", "IPC namespace", "UTS namespace", "cgroup namespace", "mount attributes",
		"read-only mounts", "pids", "open files", "core", "disk", "memory", "tree paths", "kernel trees",
		"copy caps", "relay cap", "haste", "read-only program", "a share of counters", "arguments", "output cap", "egress gate"}
}

func (d Defences) String() string {
	var out []string
	for i, n := range defenceNames() {
		if d&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return strings.Join(slices.Compact(out), ", ")
}
