package ns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/pid1"
)

// packets is a SEQPACKET socket of the runtime's poller.
type packets struct {
	file *os.File
	raw  syscall.RawConn
}

// newPackets takes fd over.
func newPackets(fd int) (packets, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return packets{}, err
	}
	f := os.NewFile(uintptr(fd), "socket")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
	}
	return packets{f, raw}, err
}

func (p packets) Send(b, oob []byte) (err error) {
	rerr := p.raw.Write(func(fd uintptr) bool {
		err = unix.EINTR
		for err == unix.EINTR {
			err = unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_NOSIGNAL)
		}
		return err != unix.EAGAIN
	})
	if rerr != nil {
		return rerr
	}
	return err
}

func (p packets) Recv(b, oob []byte) (n, oobn int, err error) {
	rerr := p.raw.Read(func(fd uintptr) bool {
		err = unix.EINTR
		for err == unix.EINTR {
			n, oobn, _, _, err = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
		}
		return err != unix.EAGAIN
	})
	if rerr != nil {
		err = rerr
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, oobn, err
}

func (p packets) SetReadDeadline(t time.Time) error { return p.file.SetReadDeadline(t) }
func (p packets) Close() error                      { return p.file.Close() }

// CloseWrite tells the other side that nothing more comes.
func (p packets) CloseWrite() {
	_ = p.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // it may have gone
}

// rawSocket is the keeper's end of an init's socket. It only ever writes one
// packet to an init that waits for it.
type rawSocket int

func (s rawSocket) Send(b, oob []byte) error {
	for {
		err := unix.Sendmsg(int(s), b, oob, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

func (s rawSocket) Recv([]byte, []byte) (int, int, error) { return 0, 0, errors.ErrUnsupported }

// op is what the backend asks its keeper.
type op string

const (
	opConfigure op = "configure"
	opOwners    op = "owners"  // make the companion of a layer
	opUncover   op = "uncover" // let it go
	opLayers    op = "layers"  // open layers that only root can
	opCreate    op = "create"
	opRestack   op = "restack" // drop what is written, stand on a snapshot
	opFreeze    op = "freeze"
	opEnd       op = "end" // freeze and destroy
	opPeek      op = "peek"
	opPut       op = "put"
	opGet       op = "get"
	opDiff      op = "diff"
	opDrop      op = "drop"
	opDestroy   op = "destroy"
	opSteps     op = "steps" // measure; Max: rounds
)

// request is one question. Descriptors come in the order of the fields that
// mention them.
type request struct {
	Op       op
	Sandbox  string           `json:",omitempty"`
	Snapshot sandbox.Snapshot `json:",omitempty"`

	// configure
	Root    bool           `json:",omitempty"` // the backend is root and opens what we cannot: a mount comes with every path
	Store   image.HostPath `json:",omitempty"` // a directory like a layer's; fds: its mount, if Root
	Scratch image.HostPath `json:",omitempty"` // fds: its mount, if Root
	Warm    int            `json:",omitempty"`
	IDs     int            `json:",omitempty"` // how many are mapped
	Trash   image.HostPath `json:",omitempty"` // a directory to be emptied of what only these ids can remove
	// Without: walls that are left out; see Config.
	Without sandbox.Defences `json:",omitempty"`
	// OldMounts: mount as kernels before 6.5 can, for a test.
	OldMounts bool `json:",omitempty"`

	// create
	Layers []image.HostPath `json:",omitempty"` // bottom first; of layers, fds: one each; of create, with Root: sent before
	Binds  []bind           `json:",omitempty"` // fds: if Root, one each
	Dirs   []image.Path     `json:",omitempty"` // that must exist
	Apt    bool             `json:",omitempty"` // the image has apt
	Real   bool             `json:",omitempty"` // owners are real
	Covers []string         `json:",omitempty"` // the ids of those Layers that have a companion, "" for the others; empty: none has
	Disk   bool             `json:",omitempty"`
	Bytes  int64            `json:",omitempty"`
	Inodes int64            `json:",omitempty"`

	// create, restack and freeze: what a new init is told once its tree is there
	Enter  []byte `json:",omitempty"`
	Groups int    `json:",omitempty"` // control groups that it joins; fds: their lists of tasks

	// put, get and owners; fds: the pipe
	Path image.Path `json:",omitempty"`
	Max  int64      `json:",omitempty"`
}

type bind struct {
	Source   image.HostPath
	Target   image.Path
	ReadOnly bool
	Memory   int64 `json:",omitempty"` // instead of Source: bytes of an empty tmpfs
}

// reply is one answer. Descriptors: for create, restack and freeze the init's socket.
type reply struct {
	Err   string  `json:",omitempty"`
	Errno int     `json:",omitempty"`
	Kind  string  `json:",omitempty"` // of an error: one of errKinds
	Step  step    `json:",omitempty"` // of an error of the set-up
	Notes []reply `json:",omitempty"` // of configure: what is missing but not fatal
	Pid   int     `json:",omitempty"` // the init's

	Steps []sandbox.Step `json:",omitempty"` // of steps
}

// errKinds are the errors that keep their identity on the way.
func errKinds() map[string]error {
	return map[string]error{
		"notexist": fs.ErrNotExist, "toolarge": sandbox.ErrTooLarge, "unsupported": sandbox.ErrUnsupported,
		"closed": sandbox.ErrClosed,
	}
}

// replyError packs an error.
func replyError(err error) reply {
	r := reply{Err: err.Error()}
	var f *stepFailure
	if errors.As(err, &f) {
		r.Err = f.err.Error() // the step comes with it
	}
	for k, e := range errKinds() {
		if errors.Is(err, e) {
			r.Kind = k
		}
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		r.Errno = int(e)
	}
	r.Step = stepOf(err)
	return r
}

// remoteError is an error that happened in the keeper.
type remoteError struct {
	text   string
	causes []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.causes }

// err unpacks it.
func (r reply) err() error {
	if r.Err == "" {
		return nil
	}
	e := &remoteError{text: r.Err}
	if k := errKinds()[r.Kind]; k != nil {
		e.causes = append(e.causes, k)
	}
	if r.Errno != 0 {
		e.causes = append(e.causes, syscall.Errno(r.Errno))
	}
	if r.Step != "" {
		return &stepFailure{r.Step, e}
	}
	return e
}

// message kinds between backend and keeper; pid1's are not used there.
const (
	kindRequest pid1.Kind = 100
	kindReply   pid1.Kind = 101
)

func send(p pid1.Packets, kind pid1.Kind, id uint32, v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return pid1.Send(p, pid1.Message{Kind: kind, ID: id, Strs: []string{string(b)}}, fds...)
}

func unpack(m pid1.Message, kind pid1.Kind, v any) error {
	if m.Kind != kind || len(m.Strs) != 1 {
		return fmt.Errorf("unexpected message %d", m.Kind)
	}
	return json.Unmarshal([]byte(m.Strs[0]), v)
}
