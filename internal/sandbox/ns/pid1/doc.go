// Package pid1 is the first process of a sandbox, and the messages it speaks.
//
// The ns backend re-executes this program once, as a zygote. Each init is a copy
// of it, forked into fresh namespaces: it costs no start of a program, and little
// memory of its own. An init enters one tree (mounts, pivot_root), takes the
// filter of system calls upon itself, starts programs with fewer rights than its
// own, passes on signals, reaps, and hands out connections to relayed ports and,
// where a network is wanted, an interface. It never opens a path that a program
// inside could have moved without staying below the tree's root, and holds no
// descriptor of the host's beyond those it was sent.
//
// The package depends on syscall alone. Go initialises packages in the order of
// their import paths as their dependencies allow, so that it takes over before
// the rest of the program has initialised.
//
// # One thread
//
// A copy of a Go program has one of its threads. So an init has no goroutines,
// waits in one place (see server.await), never collects garbage, and makes none
// in what it does again and again: messages and files are read into the same
// memory every time. A refusal may cost a hundred bytes.
//
// # Messages
//
// One packet of a SEQPACKET socket is one [Message]; what does not fit into a
// packet comes in a memfd, the first of its descriptors. Requests carry an id
// of the caller's choice that the reply repeats.
//
//	filters strs: arrays of struct sock_filter that every program gets, in a sandbox of one
//	        id and of many; to a zygote, first; has no answer
//	bear    nums: clone flags, number of ids (0: the parent's own alone); fds: the socket of
//	        the init to be → born (nums: pid; fds: pidfd), refused (nums: errno)
//	enter   once; strs: host name, then a target per mount; nums: bytes of /dev/shm,
//	        number of mounts, of control groups, then the relayed ports; fds: root, then
//	        the mounts, then the groups' lists of tasks → ok (nums: errno of joining them)
//	link    hands out what names are asked on, and an interface: nums and strs as [LinkNums] says;
//	        fds: /dev/net/tun as an open path, or none → ok (fds: the socket, the interface unless it was
//	        handed out before)
//	kill    ends every process; nums: any, and starts no other from then on → ok
//	start   strs: directory, candidates of the program's path, argv, env; nums: terminal?, rows,
//	        columns, number of candidates, of argv, then (rlimit, value) pairs;
//	        fds: stdin (if left out, /dev/null), stdout, stderr, or none with a terminal → started (fds: the terminal's master)
//	startas like start, with a user before the other strs: NAME, NUMBER or either with :GROUP;
//	        only where more than one id is mapped. A HOME that the env lacks is the user's.
//	signal  nums: start id, signal → ok
//
//	ready   it has booted; failed: it could not (strs: step; nums: errno)
//	refused strs: text; nums: errno, stage; the answer to a request that failed
//	exited  id: of the start; nums: wait status, CPU ns, max RSS bytes
//	conn    nums: port; fds: an accepted connection
package pid1
