package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Main runs the attacker if args are an attacker's. It refuses to outside of a
// user namespace.
func Main(args []string, host Host) (exit int, handled bool) {
	if len(args) < 2 || args[0] != marker {
		return 0, false
	}
	if b, err := os.ReadFile("/proc/self/uid_map"); err == nil && slices.Equal(fields(b), []string{"0", "0", "4294967295"}) {
		fmt.Fprintln(os.Stderr, "attackers run in a sandbox only")
		return 2, true
	}
	switch {
	case args[1] == "alive":
		fmt.Println("alive")
	case args[1] == "arena" && len(args) > 3:
		arena(args[2], args[3:], host, func(v verdict) { _ = json.NewEncoder(os.Stdout).Encode(v) }) // who asked reads, or is gone
	default:
		return attacker(args[1], args[2:]), true
	}
	return 0, true
}

// arena is this program as the host of a sandbox within a sandbox. Several
// attacks have the same walls down.
func arena(how string, names []string, host Host, tell func(verdict)) {
	list := attacks()
	fail := func(what string, err error) { tell(verdict{Attack: names[0], Err: fmt.Sprint(what, ": ", err)}) }
	i := slices.IndexFunc(list, func(a attack) bool { return a.name == names[0] })
	if i < 0 {
		fail("no such attack", errors.ErrUnsupported)
		return
	}
	a := list[i]
	ctx := context.Background()
	if a.own {
		if err := moveOut(); err != nil {
			fail("copy this program", err)
			return
		}
	}
	found := &atomic.Int64{}
	if err := setBait(found); err != nil {
		fail("set bait", err)
		return
	}
	if how == "naked" {
		tell(a.nakedRun(ctx))
		return
	}
	off := map[string]sandbox.Defences{"on": 0, "off": a.off, "all": sandbox.AllDefences &^ sandbox.DefDeafInit &^ sandbox.DefHaste}[how]
	if a.race {
		off |= sandbox.DefHaste
	}
	const dir = "/dev/shm/arena" // a file system of its own that layers can lie on
	if err := os.MkdirAll(dir, 0o755); err != nil {
		fail("a directory", err)
		return
	}
	b, err := host.Open(ctx, dir, off)
	if err != nil {
		fail("a sandbox within", err)
		return
	}
	for _, a := range list { // nothing is closed: the outer sandbox ends it all
		if slices.Contains(names, a.name) {
			v := a.run(ctx, b, arenaImage(), dir, off, surroundings{gate: host.Gate, found: found})
			v.Attack = a.name
			tell(v)
		}
	}
}

// arenaImage is made of what the outer sandbox shows.
func arenaImage() image.Image {
	img := image.Image{Name: "arena"}
	for _, d := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin"} {
		if fi, err := os.Stat(d); err == nil && fi.IsDir() {
			img.Binds = append(img.Binds, image.Bind{Source: image.HostPath(d), Target: image.Path(d)})
		}
	}
	return img
}

// moveOut goes on as a copy of this program that belongs to the arena, as one
// does that an ordinary user has installed.
func moveOut() error {
	const at = "/dev/shm/assay"
	if _, err := os.Stat(at); err == nil {
		return nil // this is it
	}
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(at, b, 0o755)
	}
	if err != nil {
		return err
	}
	return syscall.Exec(at, os.Args, attackerEnv())
}

// nakedRun makes the attack as an ordinary process of the arena, beside a
// victim.
func (a attack) nakedRun(ctx context.Context) verdict {
	dir, err := baitDir("/dev/shm")
	if err != nil {
		return verdict{Err: err.Error()}
	}
	f := &field{ctx: ctx, a: a, dir: dir, naked: true}
	worked, detail, err := a.try(f)
	if err != nil {
		return verdict{Err: err.Error(), Detail: detail}
	}
	return verdict{Worked: worked, Detail: detail}
}

// bareCommand starts an attacker without a sandbox, in the arena.
func bareCommand(args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Args = append([]string{marker}, args...)
	c.Env = attackerEnv()
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c
}

// Bait of the arena: what belongs to its host and no sandbox may reach.
const (
	baitPort   = 47113
	baitSocket = "@assay-bait"
	baitShm    = 0x6a55a7
	baitKey    = "assay-bait-key"
	metadata   = "169.254.169.254"
)

// setBait makes listeners, shared memory and a key in the arena's namespaces.
// found counts who comes to the listeners.
func setBait(found *atomic.Int64) error {
	for _, err := range []error{
		addAddress(metadata), listen("tcp", fmt.Sprintf(":%d", baitPort), found), listen("unix", baitSocket, found), datagrams(),
	} {
		if err != nil {
			return err
		}
	}
	id, _, e := syscall.Syscall(syscall.SYS_SHMGET, baitShm, 4096, 0o1666)
	if e != 0 {
		return fmt.Errorf("shmget: %w", e)
	}
	_ = id
	if _, err := unix.KeyctlJoinSessionKeyring("assay-bait"); err == nil {
		_, _ = unix.AddKey("user", baitKey, []byte(bait), unix.KEY_SPEC_SESSION_KEYRING) // kernels without keys have none to steal
	}
	return nil
}

// listen greets whoever connects.
func listen(network, addr string, found *atomic.Int64) error {
	l, err := net.Listen(network, addr)
	if err != nil {
		return err
	}
	go func() { // until the arena ends
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			found.Add(1)
			fmt.Fprintln(c, bait)
			c.Close()
		}
	}()
	return nil
}

// datagrams flow on loopback all the time, for who listens in.
func datagrams() error {
	c, err := net.Dial("udp", "127.0.0.1:47114")
	if err != nil {
		return err
	}
	go func() {
		for {
			_, _ = c.Write([]byte(bait)) // nobody listens; that is no matter
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return nil
}

// addAddress gives loopback one more address.
func addAddress(ip string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo:9")
	if err == nil {
		err = ifr.SetInet4Addr(net.ParseIP(ip).To4())
	}
	if err != nil {
		return err
	}
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(ifr))); e != 0 {
		return fmt.Errorf("address %s: %w", ip, e)
	}
	return nil
}
