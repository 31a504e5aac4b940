package ns

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
)

// crowd is how many sandboxes live when their owner is killed: half of
// ASSAY_SOAK, or fifty.
func crowd(t testing.TB) int {
	if os.Getenv("ASSAY_SOAK") == "" {
		return 50
	}
	_, together := soak(t)
	return together
}

// A program that is killed with many sandboxes alive leaves nothing after the
// next one has started: no process, mount, control group, namespace, temporary
// file or descriptor.
func TestKillOfManyLeavesNothing(t *testing.T) {
	requireSandbox(t)
	n := crowd(t)
	dir := t.TempDir()
	for _, d := range []string{"/tmp", "/scratch"} {
		if err := os.Mkdir(dir+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before, fds := mounts(t), descriptors(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{victimMarker, dir, strconv.Itoa(n)}
	cmd.Env = append(os.Environ(), "TMPDIR="+dir+"/tmp")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	said := make([]byte, len("ready"))
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "ready" {
		more, _ := io.ReadAll(out)
		t.Fatalf("%s%s %v", said, more, err)
	}
	all := descendants(t, cmd.Process.Pid)
	spaces := namespaces(t, all)
	for s := range namespaces(t, map[int]string{os.Getpid(): ""}) {
		delete(spaces, s)
	}
	groups, everybody := groupsWith(t, all), map[int]string{}
	for pid := range processes(t) {
		for s := range namespaces(t, map[int]string{pid: ""}) {
			if spaces[s] {
				_, everybody[pid] = origin(pid)
			}
		}
	}
	if len(all) < 2*n || len(spaces) < 5*n {
		t.Fatalf("the test sees %d processes in %d namespaces of %d sandboxes", len(all), len(spaces), n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for end := time.Now().Add(time.Minute); len(living(t, all)) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			left := living(t, all)
			t.Fatalf("%d processes live on: %q", len(left), left[:min(5, len(left))])
		}
	}
	_, st := openStoreAt(t, dir+"/store")
	b, err := Open(t.Context(), Config{Store: st, Scratch: image.HostPath(dir + "/scratch")})
	if err != nil {
		t.Fatal(err)
	}
	s := arena(t, b)
	if got := script(t, s, "echo alive"); got != "alive" {
		t.Errorf("the next program's sandbox says %q", got)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	// The kernel gives the numbers of namespaces out again: who is in one of ours must have been in one then.
	// The dead, whom the machine's first process has not waited for yet, hold none.
	alive := processes(t)
	for pid, began := range everybody {
		if _, b := origin(pid); b != began || alive[pid] == "" {
			delete(everybody, pid)
		}
	}
	now := namespaces(t, everybody)
	for s := range spaces {
		if now[s] {
			t.Errorf("namespace %s lives on", s)
		}
	}
	if left := abandoned(groups); len(left) > 0 {
		t.Errorf("control groups: %v", left)
	}
	if left := newMounts(t, before, dir); len(left) > 0 {
		t.Errorf("mounts: %q", left)
	}
	if now := descriptors(t); now > fds+1 { // the pipe of what the victim says
		t.Errorf("%d descriptors, %d before", now, fds)
	}
	for _, d := range []string{"/tmp", "/scratch", "/store/tmp", "/store/trash"} {
		if left := entries(t, dir+d); len(left) > 0 {
			t.Errorf("%s holds %v", d, left)
		}
	}
	if left, _ := filepath.Glob(dir + "/store/.probe-*"); len(left) > 0 {
		t.Errorf("the store holds %v", left)
	}
	t.Logf("killed with %d sandboxes, %d processes, %d namespaces", n, len(all), len(spaces))
}

// entries lists what lies below a directory, directories that hold nothing and
// locks that nobody holds left out.
func entries(t testing.TB, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		out = append(out, fmt.Sprint(strings.TrimPrefix(p, dir+"/"), " ", d.Type()))
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return out
}
