// Package pid1 is the first process of a sandbox: the program that the ns
// backend re-executes inside fresh namespaces, and the messages it speaks.
//
// It enters a tree (mounts, pivot_root), leaves it again, starts programs with
// fewer rights than its own, passes on signals, reaps, and hands out connections
// to relayed ports and, where a network is wanted, an interface. It never opens
// a path that a program inside could have moved without staying below the
// tree's root, and holds no descriptor of the host's beyond those it was sent.
//
// The package depends on syscall and sync alone. Go initialises packages in the
// order of their import paths as their dependencies allow, so that it takes
// over before the rest of the program has initialised: a sandbox then costs
// the boot of a small program in time and memory, however large assay grows.
//
// # Messages
//
// One packet of a SEQPACKET socket is one [Message]; what does not fit into a
// packet comes in a memfd, the first of its descriptors. Requests carry an id
// of the caller's choice that the reply repeats.
//
//	enter   strs: host name, then a target per mount; nums: bytes of /dev/shm,
//	        number of mounts, then the relayed ports; fds: root, then the mounts → ok
//	filter  strs: an array of struct sock_filter that every program gets; has no answer
//	link    hands out what names are asked on, and an interface: nums and strs as [LinkNums] says;
//	        fds: /dev/net/tun as an open path, or none → ok (fds: the socket, the interface unless it was
//	        handed out before)
//	park    ends every process and leaves the tree; nums: fresh namespaces? → ok
//	kill    ends every process → ok
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
