package ns

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// tools are backends with an image of this machine's tools, as every user gets it:
// one with control groups, where they hold memory here, and one without.
func tools(t *testing.T) (modes map[string]*Backend, img image.Image) {
	t.Helper()
	_, st := openStore(t)
	img, err := st.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	modes = map[string]*Backend{}
	for mode, without := range map[string]bool{"groups": false, "watchdog": true} {
		b, err := Open(t.Context(), Config{Store: st, NoCgroups: without})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		modes[mode] = b
	}
	if !slices.ContainsFunc(modes["groups"].Capabilities().Limits, func(l string) bool { return strings.HasPrefix(l, "memory:cgroup") }) {
		delete(modes, "groups") // this user may write none
	}
	return modes, img
}

// A hog holds %d MiB, every page of them, in one language or another.
func hogs() map[string]string {
	return map[string]string{
		"node": `node -e 'const a = []; for (let i = 0; i < %d; i++) a.push(Buffer.alloc(1 << 20, 1)); console.log("held", a.length)'`,
		"java": `mkdir -p /tmp/j && cd /tmp/j && cat > Hog.java <<'J'
public class Hog {
	public static void main(String[] args) {
		byte[][] a = new byte[%d][];
		for (int i = 0; i < a.length; i++) { a[i] = new byte[1 << 20]; java.util.Arrays.fill(a[i], (byte) 1); }
		System.out.println("held " + a.length);
	}
}
J
java -Xmx8g -XX:TieredStopAtLevel=1 Hog.java`,
		"python3": `python3 -c 'a = [b"x" * (1 << 20) for i in range(%d)]; print("held", len(a))'`,
		// A program made by Go, with the race detector's shadow of terabytes where the tests have it.
		"go": `/attack "hog %d"`,
		// An agent: a shell that starts all of them as its tools, some in sessions of their own.
		"agent": `echo thinking > /tmp/plan
python3 -c 'print(sum(range(1000)))' > /tmp/sum && test "$(cat /tmp/sum)" = 499500 || exit 9
node -e 'require("fs").writeFileSync("/tmp/a.json", JSON.stringify({a: 1}))' || exit 9
setsid sh -c 'node -e "setTimeout(() => {}, 3000)"' &
setsid python3 -c 'a = [b"x" * (1 << 20) for i in range(%d)]; print("held", len(a))' && grep -q '"a":1' /tmp/a.json`,
	}
}

// needs are the tools without which a hog cannot be.
func needs(hog string) []string {
	switch hog {
	case "go":
		return nil
	case "agent":
		return []string{"node", "python3", "setsid"}
	}
	return []string{hog}
}

// Real runtimes, which reserve far more address space than they use, run below
// a memory limit and end above it, whoever holds it.
func TestRuntimesUnderAMemoryLimit(t *testing.T) {
	requireSandbox(t)
	modes, img := tools(t)
	const limit, below, above = 384, 48, 1200 // MiB
	for mode, b := range modes {
		for _, name := range slices.Sorted(maps.Keys(hogs())) {
			t.Run(mode+"/"+name, func(t *testing.T) {
				s := arena(t, b, func(sp *sandbox.Spec) { sp.Image, sp.Limits.MemBytes = img, limit<<20 })
				for _, n := range needs(name) {
					if script(t, s, "command -v "+n+" || true") == "" {
						t.Skipf("no %s on this machine", n)
					}
				}
				if held, _ := s.(sandbox.Held).Held(); !slices.ContainsFunc(held, func(l string) bool { return strings.HasPrefix(l, "memory:") }) {
					t.Errorf("held: %v", held)
				}
				for _, mib := range []int{below, above} {
					r := hold(t, s, fmt.Sprintf(hogs()[name], mib))
					said := strings.Contains(string(r.Stdout), fmt.Sprint("held ", mib))
					if mib == below && (r.Exit.Code != 0 || r.Exit.OutOfMemory || !said) {
						t.Errorf("%d MiB below a limit of %d: %+v %s %s", mib, limit, r.Exit, r.Stdout, r.Stderr)
					}
					if mib == above && (!r.Exit.OutOfMemory || said) {
						t.Errorf("%d MiB above a limit of %d: %+v %s %s", mib, limit, r.Exit, r.Stdout, r.Stderr)
					}
				}
				if got := script(t, s, "echo alive"); got != "alive" {
					t.Errorf("afterwards: %q", got)
				}
			})
		}
	}
}

// hold runs a script that may take its time.
func hold(t *testing.T, s sandbox.Starter, text string) sandbox.ExecResult {
	t.Helper()
	cmd := sandbox.Command{Args: []string{"sh", "-c", text}, Env: []string{"ASSAY_ATTACK=1", "GORACE=atexit_sleep_ms=0"}}
	r, err := sandbox.Exec(t.Context(), s, cmd, sandbox.ExecOptions{Timeout: 3 * time.Minute})
	if err != nil || r.TimedOut {
		t.Fatalf("%v, timed out: %v, %s %s", err, r.TimedOut, r.Stdout, r.Stderr)
	}
	return r
}

// No limit of memory is one of address space.
func TestAddressSpaceIsFree(t *testing.T) {
	requireSandbox(t)
	modes, _ := tools(t)
	for mode, b := range modes {
		s := arena(t, b, func(sp *sandbox.Spec) { sp.Limits.MemBytes = 64 << 20 })
		if got := script(t, s, "ulimit -v; ulimit -d"); got != "unlimited\nunlimited" {
			t.Errorf("%s: %q", mode, got)
		}
		if r := hold(t, s, "/attack reserve"); r.Exit.Code != 0 || r.Exit.OutOfMemory || string(r.Stdout) != "reserved\n" {
			t.Errorf("%s: %+v %s%s", mode, r.Exit, r.Stdout, r.Stderr)
		}
	}
}

// The heavy one: Go's own tool builds and runs a test with the race detector.
func TestGoTestRace(t *testing.T) {
	if os.Getenv("ASSAY_LONG_RUNTIMES") == "" {
		t.Skip("takes minutes: ./check --long runtimes")
	}
	requireSandbox(t)
	modes, img := tools(t)
	const limit = 1500 // MiB; the linker alone takes some hundred
	for mode, b := range modes {
		t.Run(mode, func(t *testing.T) {
			s := arena(t, b, func(sp *sandbox.Spec) {
				sp.Image, sp.Limits.MemBytes, sp.Limits.DiskBytes = img, limit<<20, 2<<30
			})
			goTool := script(t, s, "command -v go || ls /usr/local/go/bin/go 2>/dev/null || true")
			if goTool == "" || script(t, s, "command -v gcc || true") == "" {
				t.Skip("no go and gcc on this machine")
			}
			r := hold(t, s, `mkdir -p /w/tmp && cd /w && export GOCACHE=/w/cache GOTMPDIR=/w/tmp HOME=/w GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local
printf 'module race\n\ngo 1.20\n' > go.mod
cat > race_test.go <<'G'
package race

import (
	"os"
	"strconv"
	"testing"
)

func TestHold(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("HOLD"))
	a := make([][]byte, n)
	done := make(chan bool)
	go func() {
		for i := range a {
			a[i] = make([]byte, 1<<20)
			for j := 0; j < len(a[i]); j += 512 {
				a[i][j] = 1
			}
		}
		done <- true
	}()
	<-done
	t.Logf("held %d", len(a))
}
G
HOLD=20 `+goTool+` test -race -v -count=1 . && echo below: fine
HOLD=3000 `+goTool+` test -race -v -count=1 . || echo above: ended`)
			if out := string(r.Stdout); !strings.Contains(out, "held 20\n") || !strings.Contains(out, "below: fine") ||
				!strings.Contains(out, "above: ended") || strings.Contains(out, "held 3000") || !r.Exit.OutOfMemory {
				t.Errorf("%+v\n%s\n%s", r.Exit, out, r.Stderr)
			}
		})
	}
}

// hog holds memory until somebody else ends it or it has said so.
func hog(mib string) error {
	n, err := strconv.Atoi(mib)
	if err != nil {
		return err
	}
	var a [][]byte
	for range n {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 512 {
			b[i] = 1
		}
		a = append(a, b)
	}
	fmt.Println("held", len(a))
	return nil
}

// reserve takes a terabyte of addresses and uses none.
func reserve() error {
	b, err := unix.MmapPtr(-1, 0, nil, 1<<40, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err == nil {
		fmt.Println("reserved")
		err = unix.MunmapPtr(b, 1<<40)
	}
	return err
}

// Programs see the machine's processors, although there is no /sys.
func TestProcessorsAreSeen(t *testing.T) {
	requireSandbox(t)
	modes, img := tools(t)
	s := arena(t, modes["watchdog"], func(sp *sandbox.Spec) { sp.Image = img })
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	want := strconv.Itoa(set.Count())
	for tool, text := range map[string]string{
		"nproc": "nproc", "getconf": "getconf _NPROCESSORS_ONLN", "python3": "python3 -c 'import os; print(len(os.sched_getaffinity(0)))'",
		"node": "node -p 'require(\"os\").availableParallelism()'",
		"java": `cd /tmp && printf 'class P { public static void main(String[] a) { System.out.println(Runtime.getRuntime().availableProcessors()); } }' > P.java && java -XX:TieredStopAtLevel=1 P.java`,
	} {
		if script(t, s, "command -v "+tool+" || true") == "" {
			t.Logf("no %s on this machine", tool)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err := sandbox.Exec(ctx, s, sandbox.Command{Args: []string{"sh", "-c", text}}, sandbox.ExecOptions{})
		cancel()
		if got := strings.TrimSpace(string(r.Stdout)); err != nil || got != want {
			t.Errorf("%s says %q, want %s: %s, %v", tool, got, want, r.Stderr, err)
		}
	}
}
