// Package seccomp compiles the list of system calls that programs in a sandbox
// are refused into a program for the kernel's filter (classic BPF). It depends
// on nothing, installs nothing and asks nothing of the machine it runs on: the
// same policy gives the same bytes everywhere.
//
// Docker's default profile is the measure. Every call that it refuses to a
// container with the capabilities we keep is refused here; a test compares all
// calls on all tables. Beyond that:
//   - what is newer than the tables is ENOSYS, not EPERM, so that libc and
//     programs fall back as on an older kernel; clone3 too, because its flags
//     lie in memory where a filter cannot see them;
//   - the 32-bit tables of x86 and ARM have rows of their own; x32 and every
//     other table is ENOSYS;
//   - socketcall, which hides the family of a socket in memory, cannot make
//     sockets.
//
// With FakeOwners, calls that change owners or identities say that they did
// and do nothing. A sandbox with a single user id cannot grant them, and
// package managers need no more than the answer.
package seccomp
