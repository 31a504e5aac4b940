package pid1

import (
	"syscall"
	"unsafe"
)

// inbox receives messages of a blocking socket, each into the same memory.
type inbox struct {
	buf    [inline]byte
	oob    [4*maxFDs + 16]byte
	fds    [maxFDs]int
	m      Message
	large  []byte // a mapping: the last message, if it came in a memfd
	header syscall.Msghdr
	iov    syscall.Iovec
}

// recv returns the next message. It is good until free, and its descriptors are
// the caller's to close.
func (in *inbox) recv(sock int) (*Message, []int, error) {
	in.iov = syscall.Iovec{Base: &in.buf[0], Len: inline}
	in.header = syscall.Msghdr{Iov: &in.iov, Iovlen: 1, Control: &in.oob[0], Controllen: uint64(len(in.oob))}
	var n uintptr
	for e := syscall.EINTR; e == syscall.EINTR; {
		if n, _, e = syscall.Syscall(syscall.SYS_RECVMSG, uintptr(sock), uintptr(unsafe.Pointer(&in.header)), syscall.MSG_CMSG_CLOEXEC); e != 0 && e != syscall.EINTR {
			return nil, nil, e
		}
	}
	if n == 0 {
		return nil, nil, errEnd
	}
	fds := in.rights(in.oob[:in.header.Controllen])
	ok := in.m.view(in.buf[:n])
	if ok && in.m.Kind == spilled {
		if ok = len(in.m.Nums) == 1 && len(fds) > 0; ok {
			ok = in.unfold(fds[0], in.m.Nums[0])
			syscall.Close(fds[0])
			fds = fds[1:]
		}
	}
	if !ok {
		CloseAll(fds)
		return nil, nil, errMessage
	}
	return &in.m, fds, nil
}

// rights takes the descriptors out of control messages.
func (in *inbox) rights(oob []byte) []int {
	const header = int(unsafe.Sizeof(syscall.Cmsghdr{}))
	n := 0
	for len(oob) >= header {
		h := (*syscall.Cmsghdr)(unsafe.Pointer(&oob[0]))
		size := int(h.Len)
		if size < header || size > len(oob) {
			break
		}
		if h.Level == syscall.SOL_SOCKET && h.Type == syscall.SCM_RIGHTS {
			for at := header; at+4 <= size && n < len(in.fds); at += 4 {
				in.fds[n] = int(*(*int32)(unsafe.Pointer(&oob[at])))
				n++
			}
		}
		oob = oob[min((size+7)&^7, len(oob)):]
	}
	return in.fds[:n]
}

// unfold maps what did not fit into a packet.
func (in *inbox) unfold(fd int, size int64) bool {
	if size <= 0 || size > maxSpilled {
		return false
	}
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Size < size {
		return false
	}
	at, _, e := syscall.Syscall6(syscall.SYS_MMAP, 0, uintptr(size), syscall.PROT_READ, syscall.MAP_PRIVATE, uintptr(fd), 0)
	if e != 0 {
		return false
	}
	in.large = unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), size)
	return in.m.view(in.large)
}

// free forgets the last message.
func (in *inbox) free() {
	if in.large != nil {
		syscall.Syscall(syscall.SYS_MUNMAP, uintptr(unsafe.Pointer(&in.large[0])), uintptr(len(in.large)), 0)
		in.large = nil
	}
}

// tell sends a short message, built in buf, which it returns.
func tell(sock int, buf []byte, m Message, fds ...int) ([]byte, error) {
	buf = m.append(buf[:0])
	if len(buf) > inline || len(fds) > maxTold {
		return buf, errMessage
	}
	iov := syscall.Iovec{Base: &buf[0], Len: uint64(len(buf))}
	header := syscall.Msghdr{Iov: &iov, Iovlen: 1}
	var oob struct {
		syscall.Cmsghdr
		fds [maxTold]int32
	}
	if len(fds) > 0 {
		oob.Cmsghdr = syscall.Cmsghdr{Len: uint64(unsafe.Sizeof(oob.Cmsghdr)) + 4*uint64(len(fds)), Level: syscall.SOL_SOCKET, Type: syscall.SCM_RIGHTS}
		for i, fd := range fds {
			oob.fds[i] = int32(fd)
		}
		header.Control, header.Controllen = (*byte)(unsafe.Pointer(&oob)), (oob.Len+7)&^7
	}
	for {
		_, _, e := syscall.Syscall(syscall.SYS_SENDMSG, uintptr(sock), uintptr(unsafe.Pointer(&header)), syscall.MSG_NOSIGNAL)
		switch e {
		case 0:
			return buf, nil
		case syscall.EINTR:
		default:
			return buf, e
		}
	}
}

// maxTold is how many descriptors go out with one message.
const maxTold = 2
