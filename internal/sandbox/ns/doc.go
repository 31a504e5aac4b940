// Package ns is the sandbox that needs nothing but Linux: user, mount, pid,
// network, IPC, UTS and cgroup namespaces, an overlay and pivot_root. No root,
// no daemon, no setuid helper. It protects the host from accidents and from
// ordinary hostile programs; it shares the kernel and does not resist an
// exploit of it.
//
// # Processes
//
// A [Backend] owns one keeper: this program re-executed in a user and mount
// namespace of its own, where it is root of nothing but that. The keeper holds
// every file system of every sandbox and a zygote (package pid1), of which it
// has one init per sandbox copied, the first process of further, nested
// namespaces. The
// backend talks to the keeper and directly to each init over inherited
// SEQPACKET sockets; there is no path, port or token that somebody else could
// connect to.
//
//	backend ── keeper: volumes, overlays, put, get, diff
//	   └────── init (one per sandbox): start, signal, kill, relays
//
// When the backend's process ends, however it ends, the keeper reads the end of
// its socket and exits, every init dies with it, and mounts and memory go with
// the last process that sees them. Only disk volumes can stay; the next Open
// with the same Scratch removes them.
//
// # Trees
//
// A volume is a tmpfs of a fixed size, or a directory of Scratch, with an upper
// and a work directory. A sandbox's tree is an overlay of its image's layers,
// frozen volumes, and one volume that is written. To snapshot is to kill every
// process, to freeze the volume and to lay a new one upon it: nothing is
// copied. A new tree, as after a reset, has a new init. Volumes are counted; the last sandbox or snapshot that uses one frees
// it.
//
// What will be asked for is made before, in the background: inits, an empty
// volume, and one empty tree upon each of the latest grounds (lower directories)
// that were asked for twice or are a snapshot. What it lies upon is all that tells
// such a tree from another, so no sandbox can have a wrong one; it counts for
// nobody, and goes with the first volume below it that nobody uses.
//
// Overlays are never attached where the keeper spawns from, so that a new
// sandbox sees nothing of another one, not even for a moment.
//
// # Users
//
// User 0 inside is the ordinary user, or for root Config.RootUID, never the
// machine's root. The keeper has as many more ids as it can get: root gives it
// a range that is nobody's, an ordinary user what /etc/subuid grants and
// newuidmap writes. Each sandbox has one id, or all of the keeper's.
//
// With all (modes root and subid) owners and users are real: a command runs as
// the user it asks for, out of the tree's own /etc/passwd, and may what that
// user may. Layers on disk belong to one user whatever their manifests say;
// each that has other owners is covered by a companion of the keeper's, a
// directory with copies of just those files, right above it in every stack.
//
// With one id (mode single) a command that asks for another user runs as the
// sandbox's root, and Held says so. Programs that give files away or become another user are told that they did
// (package seccomp): what apt, dpkg, npm and tar need, and a lie. su stays
// root, and a program that refuses to be root refuses. apt, which looks twice,
// is told to stay who it is by a file that is in every tree of an image with
// apt and in no layer.
//
// # System calls
//
// Every program runs with no_new_privs, Docker's default capabilities, and a
// filter that refuses at least what Docker's default profile refuses. The
// keeper compiles it once; each init has it from birth and takes it upon itself
// once it has entered its tree, so that programs inherit it.
package ns
