package ns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/doctor"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/pid1"
)

// outlet is what leads out of a sandbox besides its relays.
type outlet struct {
	mu      sync.Mutex
	closed  bool
	names   *serving
	packets *serving
}

// serving is a goroutine of the gate's that lives until it is ended.
type serving struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func serve(f func(context.Context)) *serving {
	ctx, cancel := context.WithCancel(context.Background())
	s := &serving{cancel, make(chan struct{})}
	go func() {
		defer close(s.done)
		f(ctx)
	}()
	return s
}

func (s *serving) end() {
	if s != nil {
		s.cancel()
		<-s.done
	}
}

// hasInterface reports whether programs get an interface, not only a proxy.
func (s *Sandbox) hasInterface() bool {
	switch s.spec.Network {
	case sandbox.NetFull:
		return true
	case sandbox.NetAllowlist:
		return s.spec.Egress.Carries() && s.b.tun() == nil
	}
	return false
}

// Outlet implements sandbox.Outlet.
func (s *Sandbox) Outlet() string {
	switch {
	case s.spec.Network == sandbox.NetFull:
		return "interface"
	case s.spec.Network == sandbox.NetAllowlist && s.wired:
		return "proxy+interface"
	case s.spec.Network == sandbox.NetAllowlist:
		return "proxy"
	}
	return ""
}

// wireFirst is wire for a new sandbox. An allow-list makes do with its proxy
// where the kernel refuses an interface although the device can be opened.
func (s *Sandbox) wireFirst(ctx context.Context) error {
	err := s.wire(ctx)
	var r *doctor.Refusal
	if s.spec.Network == sandbox.NetAllowlist && s.wired && errors.As(err, &r) {
		s.wired = false
		return s.wire(ctx)
	}
	return err
}

// wire takes the way out from the init and gives it to the gate. No program
// runs in the tree yet.
func (s *Sandbox) wire(ctx context.Context) error {
	if s.spec.Network == "" || s.spec.Network == sandbox.NetNone {
		return nil
	}
	m := pid1.Message{Kind: pid1.Link}
	var device []int
	if s.wired {
		fd, err := unix.Open(s.b.conf.tunDevice(), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return tunRefusal(err)
		}
		defer unix.Close(fd)
		device = []int{fd}
		m.Nums, m.Strs = linkOf()
	}
	_, fds, err := s.current().ask(ctx, m, device...)
	if err != nil {
		if s.wired {
			err = tunRefusal(err)
		}
		return fmt.Errorf("network %s: %w", s.spec.Network, err)
	}
	if len(fds) == 0 || len(fds) > 1+len(device) {
		closeFDs(fds)
		return errors.New("the init handed out no way for names")
	}
	f := os.NewFile(uintptr(fds[0]), "names")
	names, err := net.FilePacketConn(f)
	f.Close()
	if err != nil {
		closeFDs(fds[1:])
		return fmt.Errorf("names: %w", err)
	}
	o := &s.outlet
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		names.Close()
		closeFDs(fds[1:])
		return sandbox.ErrClosed
	}
	o.names = serve(func(ctx context.Context) { s.spec.Egress.Names(ctx, names) })
	if len(fds) > 1 {
		o.packets = serve(func(ctx context.Context) { s.carry(ctx, fds[1]) })
	}
	return nil
}

// tun is the host's end of an interface. The kernel needs tens of milliseconds
// to take one away, which nobody waits for but the backend: Close ends reads and
// writes, and the descriptor is closed once nobody uses it any more.
type tun struct{ *os.File }

func (t tun) Close() error { return t.SetDeadline(time.Unix(1, 0)) }

// carry lends an interface to the gate until ctx ends.
func (s *Sandbox) carry(ctx context.Context, fd int) {
	f := os.NewFile(uintptr(fd), "interface") // the init opened it for the poller
	_ = s.spec.Egress.Carry(ctx, tun{f})      // ends with the sandbox, or the gate
	s.b.after.Go(func() { _ = f.Close() })
}

// unwire takes it from the gate. A fresh namespace will have another interface;
// otherwise the interface stays.
func (o *outlet) unwire(fresh bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.names.end()
	o.names = nil
	if fresh {
		o.packets.end()
		o.packets = nil
	}
}

// close takes it for good.
func (o *outlet) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.unwire(true)
}

// linkOf are the addresses of a sandbox as a message has them.
func linkOf() (nums []int64, strs []string) {
	nums = []int64{sandbox.LinkMTU}
	for _, l := range [...]struct{ own, hop string }{{sandbox.LinkAddr4, sandbox.LinkHop4}, {sandbox.LinkAddr6, sandbox.LinkHop6}} {
		own, hop := netip.MustParsePrefix(l.own), netip.MustParseAddr(l.hop)
		nums = append(nums, int64(own.Bits()))
		strs = append(strs, string(own.Addr().AsSlice()), string(hop.AsSlice()))
	}
	return nums, strs
}

const tunDevice = "/dev/net/tun"

func (c Config) tunDevice() string { return cmp.Or(c.device, tunDevice) }

// tun tells why there can be no interfaces, once for the backend's life.
func (b *Backend) tun() error {
	b.tunOnce.Do(func() { b.tunErr = tryTun(b.conf.tunDevice(), b.root) })
	return b.tunErr
}

// tryTun opens the device as whoever will: as root, sandboxes are somebody else.
func tryTun(device string, root bool) error {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return tunRefusal(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return tunRefusal(err)
	}
	if root && st.Mode&6 != 6 {
		return tunRefusal(unix.EACCES)
	}
	return nil
}

// tunRefusal says what follows from a device that cannot be used, and the way
// out of it.
func tunRefusal(err error) error {
	f := doctor.Finding{Name: "tun", Detail: tunDevice + ": " + err.Error(),
		Means: "there is no --network full, and allow-lists are for programs that use a proxy"}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		f.Remedy = "modprobe tun (as root, on the machine); Docker: --device /dev/net/tun; Kubernetes: a device plugin or hostPath for /dev/net/tun"
	case errors.Is(err, syscall.EACCES):
		f.Remedy = "chmod 666 " + tunDevice + " (as root): the device gives no rights but over interfaces of one's own namespaces"
	case errors.Is(err, syscall.EPERM):
		f.Remedy = "the container's device rules forbid it: Docker: --device /dev/net/tun"
	default:
		f.Remedy = "see the error; without it: --network none, or allowlist with programs that use the proxy"
	}
	return &doctor.Refusal{Finding: f}
}

// ProbeTun says whether sandboxes of this user can have interfaces. It tries
// the device below Config.Root, and makes none.
func ProbeTun(c Config) doctor.Finding {
	err := tryTun(filepath.Join("/", string(c.Root), tunDevice), realRoot())
	var r *doctor.Refusal
	if errors.As(err, &r) {
		return r.Finding
	}
	return doctor.Finding{Name: "tun", OK: true, Detail: tunDevice + " can be opened: --network full, and allow-lists for programs that ignore proxies"}
}
