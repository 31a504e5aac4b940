package pid1

import (
	"errors"
	"syscall"
	"unsafe"
)

// maxFDs is the kernel's limit of descriptors in one message (SCM_MAX_FD).
const maxFDs = 253

// Packets sends and receives raw packets with descriptors, on the side of those
// who speak to inits.
type Packets interface {
	Send(b, oob []byte) error
	// Recv returns an error at the end. Descriptors arrive close-on-exec.
	Recv(b, oob []byte) (n, oobn int, err error)
}

// Send sends m with descriptors, which stay the caller's.
func Send(p Packets, m Message, fds ...int) error {
	if len(fds) >= maxFDs {
		return errors.New("too many descriptors for one message")
	}
	b := m.Encode()
	if len(b) > inline {
		fd, err := spill(b)
		if err != nil {
			return err
		}
		defer syscall.Close(fd)
		b = Message{Kind: spilled, Nums: []int64{int64(len(b))}}.Encode()
		fds = append([]int{fd}, fds...)
	}
	var oob []byte
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	return p.Send(b, oob)
}

// Receiver keeps the buffers of one socket's reader.
type Receiver struct {
	P   Packets
	buf [inline]byte
	oob [4*maxFDs + 16]byte
}

// Recv returns the next message; its descriptors are the caller's to close.
func (r *Receiver) Recv() (Message, []int, error) {
	n, oobn, err := r.P.Recv(r.buf[:], r.oob[:])
	if err != nil {
		return Message{}, nil, err
	}
	fds, err := rights(r.oob[:oobn])
	if err != nil {
		return Message{}, nil, err
	}
	m, err := Decode(r.buf[:n])
	if err == nil && m.Kind == spilled {
		if len(m.Nums) != 1 || len(fds) == 0 {
			err = errMessage
		} else {
			m, err = unspill(fds[0], m.Nums[0])
			syscall.Close(fds[0])
			fds = fds[1:]
		}
	}
	if err != nil {
		CloseAll(fds)
		return Message{}, nil, err
	}
	return m, fds, nil
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		syscall.Close(fd)
	}
}

func rights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, m := range msgs {
		if m.Header.Level != syscall.SOL_SOCKET || m.Header.Type != syscall.SCM_RIGHTS {
			continue
		}
		f, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return fds, err
		}
		fds = append(fds, f...)
	}
	return fds, nil
}

func spill(b []byte) (int, error) {
	name := []byte("message\x00")
	fd, _, e := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name[0])), mfdCloexec, 0)
	if e != 0 {
		return -1, e
	}
	for off := 0; off < len(b); {
		n, err := syscall.Pwrite(int(fd), b[off:], int64(off))
		if err != nil {
			syscall.Close(int(fd))
			return -1, err
		}
		off += n
	}
	return int(fd), nil
}

func unspill(fd int, size int64) (Message, error) {
	if size < 0 || size > maxSpilled {
		return Message{}, errMessage
	}
	b := make([]byte, size)
	for off := 0; off < len(b); {
		n, err := syscall.Pread(fd, b[off:], int64(off))
		if err != nil {
			return Message{}, err
		}
		if n == 0 {
			return Message{}, errMessage
		}
		off += n
	}
	return Decode(b)
}
