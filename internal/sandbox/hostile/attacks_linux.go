package hostile

import (
	"archive/tar"

	"assay/internal/image"
	"assay/internal/sandbox"
)

const (
	rights  = sandbox.DefCaps | sandbox.DefSeccomp
	inInit  = rights | sandbox.DefDumpable
	proc    = sandbox.DefReadOnlyProc | sandbox.DefMaskProc
	nested  = sandbox.DefNestedNS | rights
	copying = sandbox.DefTreePaths

	// Without these an attack leaves less to those beside it.
	alone = sandbox.DefPids | sandbox.DefFiles | sandbox.DefDisk | sandbox.DefMemory
)

// attacks is the list, in the order of the report.
func attacks() []attack {
	var all []attack
	add := func(class string, off sandbox.Defences, names ...string) {
		for _, n := range names {
			all = append(all, attack{name: n, class: class, off: off, try: inside, plain: off&alone == 0})
		}
	}
	with := func(a attack) {
		if a.try == nil {
			a.try, a.plain = inside, a.spec == nil && !a.arena && a.off&alone == 0
		}
		all = append(all, a)
	}
	add("process", sandbox.DefPids, "fork bomb")
	add("process", sandbox.DefFiles, "open files")
	add("process", sandbox.DefCore, "core dump")
	add("process", sandbox.DefDescriptors, "inherited descriptors")
	with(attack{name: "write after the freeze", class: "process", off: sandbox.DefDeath, try: lateWrites})
	with(attack{name: "outlive the sandbox", class: "process", naked: true, try: survives, spec: baitMount(false)})
	with(attack{name: "processes of others", class: "process", naked: true, try: beside(false)})
	with(attack{name: "files of others", class: "process", naked: true, try: beside(false)})
	with(attack{name: "kill everybody", class: "process", naked: true, try: beside(true)})
	with(attack{name: "arguments without end", class: "process", off: sandbox.DefArguments, try: huge})
	with(attack{name: "watchers of others", class: "process", off: sandbox.DefShare, try: starve})
	with(attack{name: "memory bomb", class: "process", off: sandbox.DefMemory, try: memoryBomb, spec: func(s *sandbox.Spec) { s.Limits.MemBytes = 160 << 20 }})
	with(attack{name: "output flood", class: "process", off: sandbox.DefOutput, try: outputFlood})
	add("process", 0, "real-time priority", "a better priority", "real-time disk access", "protection from the memory killer")

	add("init", sandbox.DefDeafInit, "signals to init", "signals to init by a descriptor")
	add("init", inInit, "trace init", "seize init", "memory of init", "environment of init", "root of init",
		"program of init", "descriptors of init", "take a descriptor of init", "read init with process_vm_readv", "namespaces of init",
		"join the namespaces of init")
	add("init", sandbox.DefSeccomp, "limits of init")
	with(attack{name: "program of init by its interpreter", class: "init", off: sandbox.DefProgram, own: true, try: interpreted})

	add("namespaces", nested, "user namespace", "user and mount namespace", "user namespace by clone3")
	add("namespaces", nested|proc, "raise the limit of namespaces")
	add("namespaces", rights, "mount namespace", "network namespace", "process namespace", "IPC namespace", "time namespace",
		"control group namespace", "host name", "domain name", "capabilities")
	add("namespaces", sandbox.DefNoNewPrivs, "new privileges")
	add("namespaces", sandbox.DefNoNewPrivs|sandbox.DefMountAttrs, "capabilities of a file")
	with(attack{name: "set-id program", class: "namespaces", naked: true, kernelToo: true, loose: sandbox.DefMountAttrs, try: setID})
	for _, n := range []string{"32-bit calls", "x32 calls"} {
		with(attack{name: n, class: "namespaces", off: rights, kernelToo: true})
	}
	add("mounts", rights, "mount a tmpfs", "mount another proc", "bind", "remount /proc/sys", "unmount a mask", "unmount /proc/sys",
		"unmount /usr", "pivot the root", "new mount", "clone a mount", "mount an overlay")
	with(attack{name: "mount interpreters", class: "mounts", off: rights, kernelToo: true})
	with(attack{name: "mount target through a planted link", class: "mounts", off: copying, try: plantedTarget})
	with(attack{name: "directory of a descriptor", class: "mounts", off: sandbox.DefDescriptors, try: stray})
	add("mounts", 0, "mount a disk", "release agent")
	add("mounts", sandbox.DefOldRoot, "above the root", "escape a chroot")
	with(attack{name: "node in a mount", class: "mounts", off: sandbox.DefMountAttrs, spec: func(s *sandbox.Spec) {
		s.Mounts = append(s.Mounts, sandbox.Mount{Host: "/dev/null", Target: "/mnt-null"})
	}})
	with(attack{name: "write a read-only mount", class: "mounts", off: sandbox.DefReadOnly, try: layerWrite, spec: baitMount(true)})
	with(attack{name: "remount and write", class: "mounts", off: rights, kernelToo: true, spec: baitMount(true)})

	add("kernel", 0, "load a kernel module", "load another kernel", "control-alt-delete", "set the clock", "adjust the clock",
		"take swap away", "process accounting", "kernel memory", "kernel core", "kernel timers", "system requests",
		"core pattern", "module path", "interrupts", "device node", "disk node", "file by handle", "hide below a whiteout", "ports of devices")
	for _, n := range []string{"splice into a read-only file", "write a read-only mapping"} {
		with(attack{name: n, class: "kernel", spec: baitMount(true)})
	}
	add("kernel", proc|rights, "settings of the network")
	with(attack{name: "kernel keys", class: "kernel", off: sandbox.DefMaskProc, kernelToo: true})
	with(attack{name: "a key of the starter", class: "kernel", off: sandbox.DefKeyring | sandbox.DefSeccomp, arena: true, kernelToo: true})
	for _, n := range []string{"kernel log", "BPF", "perf events", "userfaultfd", "io_uring", "keys", "kernel crypto", "machine socket",
		"another memory policy", "another personality", "compare kernel objects", "watch a file system"} {
		with(attack{name: n, class: "kernel surface", off: sandbox.DefSeccomp, kernelToo: true})
	}
	with(attack{name: "terminal injection", class: "kernel", try: typed})

	for _, n := range []string{"server on the host's loopback", "server on the host's IPv6", "abstract socket of the host", "metadata service"} {
		with(attack{name: n, class: "network", off: sandbox.DefNet, arena: true, kernelToo: n == "server on the host's IPv6"})
	}
	with(attack{name: "shared memory of the host", class: "network", off: sandbox.DefIPC, arena: true})
	with(attack{name: "name of the host", class: "network", off: sandbox.DefUTS, arena: true})
	with(attack{name: "sniff the host", class: "network", arena: true})
	add("network", rights, "take an interface down", "give oneself an address")
	with(attack{name: "packet filter", class: "network", off: rights, kernelToo: true})
	spec, try := relayFlood()
	with(attack{name: "relay flood", class: "network", off: sandbox.DefRelayCap, spec: spec, try: try})

	all = append(all, egressAttacks()...)

	add("files", sandbox.DefDisk, "fill the disk", "fill the inodes", "fill the shared memory")
	all = append(all, copyAttacks()...)
	return all
}

// baitMount shows the host's bait directory in the sandbox.
func baitMount(readOnly bool) func(*sandbox.Spec) {
	return func(s *sandbox.Spec) {
		s.Mounts = append(s.Mounts, sandbox.Mount{Host: image.HostPath("BAIT"), Target: "/bait", ReadOnly: readOnly})
	}
}

// copyAttacks go for the host's own code through trees and archives.
func copyAttacks() []attack {
	file := func(name string) func(string) []tar.Header {
		return func(dir string) []tar.Header {
			up := "../../../../../../../../../.."
			return []tar.Header{{Name: replaceBait(name, up, dir)}}
		}
	}
	links := []string{"plant links"}
	const (
		c = "archives"
		t = "trees"
	)
	return []attack{
		{name: "archive that climbs", class: c, off: copying, kernelToo: true, try: puts("/x", nil, file("UP/hostBAIT/planted"))},
		{name: "archive with a link and a file behind it", class: c, off: copying, try: puts("/x", nil, func(dir string) []tar.Header {
			return []tar.Header{{Name: "d", Typeflag: tar.TypeSymlink, Linkname: "/host" + dir}, {Name: "d/planted"}}
		})},
		{name: "archive with a file upon its own link", class: c, off: copying, try: puts("/x", nil, func(dir string) []tar.Header {
			return []tar.Header{{Name: "f", Typeflag: tar.TypeSymlink, Linkname: "/host" + dir + "/planted"}, {Name: "f"}}
		})},
		{name: "archive with a hard link outside", class: c, try: hardLink},
		{name: "put into a planted link", class: t, off: copying, try: puts("/desk/keeper", links, file("planted"))},
		{name: "put upon a planted link", class: t, off: copying, try: puts("/desk", links, file("file"))},
		{name: "put while directories are swapped", class: t, off: copying, race: true, try: races("swap directory and link", putRace)},
		{name: "get through a planted link", class: t, off: copying, try: getLink},
		{name: "copy through links in a ring", class: t, off: copying, kernelToo: true, try: rings},
		{name: "get while files are swapped", class: t, off: copying, race: true, try: races("swap file and link", getRace("/race"))},
		{name: "get while directories are swapped", class: t, off: copying, race: true, try: races("swap directory and link", getRace("/race/x"))},
		{name: "get while pipes are swapped", class: t, off: copying, race: true, try: races("swap file and pipe", getRace("/race"))},
		{name: "get while a file grows", class: t, off: sandbox.DefCopyCaps, race: true, try: races("grow and shrink", growing)},
		{name: "get a sparse giant", class: t, off: sandbox.DefCopyCaps, try: floods("grow a sparse file", "/sparse", 1<<20)},
		{name: "get names without end", class: t, off: sandbox.DefCopyCaps, try: floods("fill the inodes", "/many", 1<<20)},
		{name: "get a tree without ground", class: t, off: sandbox.DefCopyCaps, try: deepNames},
		{name: "get what is no file", class: t, off: sandbox.DefKernelTrees, try: kernelFiles},
		{name: "peek while files are swapped", class: t, off: copying, race: true, try: races("swap file and link", peekRace)},
		{name: "peek while pipes are swapped", class: t, off: copying, race: true, try: races("swap file and pipe", peekRace)},
		{name: "peek while directories are swapped", class: t, off: copying, race: true, try: races("swap directory and link", peekRace)},
	}
}
