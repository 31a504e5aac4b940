package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// networkAttackers aim at the arena's bait alone.
func networkAttackers() tries {
	return tries{
		"server on the host's loopback": plain(func() error { return greeted("tcp", fmt.Sprintf("127.0.0.1:%d", baitPort)) }),
		"server on the host's IPv6":     plain(func() error { return greeted("tcp", fmt.Sprintf("[::1]:%d", baitPort)) }),
		"abstract socket of the host":   plain(func() error { return greeted("unix", baitSocket) }),
		"metadata service":              plain(func() error { return greeted("tcp", fmt.Sprintf("%s:%d", metadata, baitPort)) }),
		"shared memory of the host": plain(func() error {
			_, _, e := syscall.Syscall(syscall.SYS_SHMGET, baitShm, 4096, 0)
			return errno(e)
		}),
		"name of the host": plain(func() error {
			n, err := os.Hostname()
			if err == nil && n != arenaName {
				err = errors.New("it says " + n)
			}
			return err
		}),
		"sniff the host": plain(func() error {
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0x0300)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 300_000}); err != nil {
				return err
			}
			b := make([]byte, 4096)
			for range 50 {
				n, _, err := unix.Recvfrom(fd, b, 0)
				if err != nil {
					return err
				}
				if bytes.Contains(b[:n], []byte(bait)) {
					return nil
				}
			}
			return errors.New("other packets only")
		}),
		"take an interface down": plain(func() error {
			s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(s)
			ifr, err := unix.NewIfreq("lo")
			if err != nil {
				return err
			}
			ifr.SetUint16(0)
			_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(ifr)))
			return errno(e)
		}),
		"give oneself an address": plain(func() error { return addAddress("10.99.99.99") }),
		// Many connections at once; the other side counts them. One that
		// waits longer is not the end: a full queue has the kernel drop the
		// first packet and send it again after a second.
		"relay flood": plain(func() error {
			var open []net.Conn
			end := time.Now().Add(8 * time.Second)
			for n := 0; n < 240*2 && time.Now().Before(end); n++ {
				if c, err := net.DialTimeout("tcp", "127.0.0.1:8088", 3*time.Second); err == nil {
					open = append(open, c)
				}
			}
			time.Sleep(300 * time.Millisecond)
			return fmt.Errorf("%d connections", len(open))
		}),
	}
}

func greeted(network, addr string) error {
	c, err := net.DialTimeout(network, addr, 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	b, err := io.ReadAll(c)
	if err == nil && !bytes.Contains(b, []byte(bait)) {
		err = errors.New("somebody else answers")
	}
	return err
}
