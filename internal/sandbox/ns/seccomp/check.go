package seccomp

const (
	// newNamespaces are the CLONE_NEW* flags of clone; CLONE_NEWTIME is not
	// among them because clone takes it for part of a signal.
	newNamespaces = 0x7e020000

	familyAlg   = 38 // the kernel's ciphers: code that no sandbox needs
	familyVsock = 40 // reaches the hypervisor, past every network namespace

	callSocket = 1 // of socketcall: SYS_SOCKET

	typeMask  = 0o170000
	typeChar  = 0o020000
	typeBlock = 0o060000
)

// check returns the code that decides a call by its arguments, or nil for a
// name it does not know.
func (p Policy) check(name string) func(*assembler) {
	switch name {
	case "clone":
		return func(a *assembler) {
			a.arg(0)
			a.add(opAnd, newNamespaces, 0, 0)
			a.add(opEqual, 0, 1, 0)
			a.ret(eperm)
			a.ret(allow)
		}
	case "socket":
		return refuseArg(0, familyAlg, familyVsock)
	case "socketcall":
		return refuseArg(0, callSocket)
	case "personality":
		return func(a *assembler) {
			a.arg(0)
			// Linux, 32-bit Linux, either with a uname of 2.6, and the question which.
			for i, v := range []uint32{0, 8, 0x20000, 0x20008, 0xffffffff} {
				a.add(opEqual, v, uint8(5-i), 0)
			}
			a.ret(eperm)
			a.ret(allow)
		}
	case "prlimit64":
		return othersLimits
	case "mknod":
		return p.mknod(1)
	case "mknodat":
		return p.mknod(2)
	}
	return nil
}

// othersLimits lets a program set its own limits alone, by process 0; others'
// it may ask for. Init's user is the program's, and an init without
// descriptors starts nothing any more: work that is failing could make a
// failure of the sandbox of it.
func othersLimits(a *assembler) {
	a.arg(0)
	a.add(opEqual, 0, 5, 0)
	a.arg(2) // the new limits, a pointer
	a.add(opEqual, 0, 0, 2)
	a.load(offArgs + 8*2 + 4)
	a.add(opEqual, 0, 1, 0)
	a.ret(eperm)
	a.ret(allow)
}

func refuseArg(i uint32, values ...uint32) func(*assembler) {
	return func(a *assembler) {
		a.arg(i)
		for j, v := range values {
			a.add(opEqual, v, uint8(len(values)-j), 0)
		}
		a.ret(allow)
		a.ret(eperm)
	}
}

// mknod makes no devices but says so: the kernel refuses them to a user
// namespace, and archives of whole systems hold some.
func (p Policy) mknod(mode uint32) func(*assembler) {
	return func(a *assembler) {
		if !p.FakeOwners && !p.FakeDevices {
			a.ret(allow)
			return
		}
		a.arg(mode)
		a.add(opAnd, typeMask, 0, 0)
		a.add(opEqual, typeChar, 2, 0)
		a.add(opEqual, typeBlock, 1, 0)
		a.ret(allow)
		a.ret(success)
	}
}
