package ns

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/cgroup"
	"assay/internal/sandbox/sandboxtest"
)

// openWithout is open where no control group may be used.
func openWithout(t testing.TB) *Backend {
	t.Helper()
	_, st := openStore(t)
	b, err := Open(context.Background(), Config{Store: st, Scratch: image.HostPath(t.TempDir()), NoCgroups: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Where there are control groups, limits hold without them too.
func TestLimitsWithoutGroups(t *testing.T) {
	requireSandbox(t)
	sandboxtest.Limits(t, sandboxtest.Subject{
		New: func(t testing.TB) sandbox.Backend { return openWithout(t) }, Image: hostImage(), Walls: true,
	})
	s, err := openWithout(t).Create(t.Context(), sandbox.Spec{Image: hostImage(), Limits: sandbox.Limits{MemBytes: 1 << 30, CPUs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	held, unheld := s.(sandbox.Held).Held()
	if !slices.Contains(held, "memory:watchdog") || !slices.Contains(unheld, "cpus") {
		t.Errorf("held %v, unheld %v", held, unheld)
	}
}

// A bomb of many processes, each below the limit, ends too; so does one that
// hides in another session.
func TestManyHogs(t *testing.T) {
	requireSandbox(t)
	with, _ := open(t)
	for name, b := range map[string]*Backend{"groups": with, "watchdog": openWithout(t)} {
		t.Run(name, func(t *testing.T) {
			s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage(), Limits: sandbox.Limits{MemBytes: 96 << 20}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"sh", "-c",
				"i=0; while test $i -lt 8; do i=$((i+1)); (head -c 40000000 /dev/zero; sleep 1) | setsid tail -c 40000000 > /dev/null & done; wait"}}, sandbox.ExecOptions{})
			if err != nil || !r.Exit.OutOfMemory {
				t.Errorf("%+v, %v", r.Exit, err)
			}
			if got := script(t, s, "echo alive"); got != "alive" {
				t.Errorf("%q", got)
			}
		})
	}
}

// groupDirs lists what every program of this kind has of control groups.
func groupDirs(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"/sys/fs/cgroup/assay-*", "/sys/fs/cgroup/*/assay-*", "/sys/fs/cgroup/*/*/*/assay-*"} {
		m, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m...)
	}
	return out
}

// A limit of processors holds: the kernel makes a busy program wait.
func TestCPULimit(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	if b.groups.By(cgroup.CPU) == "" {
		t.Skip("no control group for processors may be written here")
	}
	s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage(), Limits: sandbox.Limits{CPUs: 0.2}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if held, _ := s.(sandbox.Held).Held(); !slices.ContainsFunc(held, func(h string) bool { return strings.HasPrefix(h, "cpus:") }) {
		t.Errorf("held: %v", held)
	}
	script(t, s, "i=0; while test $i -lt 300000; do i=$((i+1)); done")
	n, err := s.(*Sandbox).confined.group.Throttled()
	if err != nil || n == 0 {
		t.Errorf("never made to wait: %d, %v", n, err)
	}
}

// What a killed program left goes when the next one starts, and nothing that
// lives.
func TestGroupsOfTheDead(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	if b.groups == nil {
		t.Skip("no control group may be written here")
	}
	living := groupDirs(t)
	if len(living) == 0 {
		t.Fatal("the test does not see the groups")
	}
	dead := filepath.Dir(living[0]) + "/assay-dead"
	if err := os.MkdirAll(dead+"/box", 0o755); err != nil {
		t.Fatal(err)
	}
	other, _ := open(t)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dead); err == nil {
		t.Error("a dead program's group stays")
		_ = os.Remove(dead + "/box")
		_ = os.Remove(dead)
	}
	s := arena(t, b)
	if got := script(t, s, "echo alive"); got != "alive" {
		t.Errorf("%q", got)
	}
}

// groupsWith lists the control groups of programs of this kind that have one of
// these processes. Others are other programs', which may be killed meanwhile.
func groupsWith(t testing.TB, procs map[int]string) []string {
	t.Helper()
	return slices.DeleteFunc(groupDirs(t), func(dir string) bool {
		found := false
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error { // others' go while we look
			if err != nil || d.Name() != "cgroup.procs" {
				return nil
			}
			b, _ := os.ReadFile(p)
			for pid := range strings.FieldsSeq(string(b)) {
				n, _ := strconv.Atoi(pid)
				found = found || procs[n] != ""
			}
			return nil
		})
		return !found
	})
}

// abandoned are those of dirs that are still there and that nobody holds.
func abandoned(dirs []string) []string {
	return slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return true
		}
		defer unix.Close(fd)
		return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil
	})
}
