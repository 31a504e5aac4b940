package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func openTree(t *testing.T) *Tree {
	t.Helper()
	tree, err := Open(Options{})
	if err != nil {
		t.Skipf("none may be written here: %v", err)
	}
	t.Cleanup(tree.Close)
	return tree
}

// hold starts a program that waits for its input in a group, so that what it
// does then is done there.
func hold(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read go; "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestMemory(t *testing.T) {
	tree := openTree(t)
	if tree.By(Memory) == "" {
		t.Skip("no memory controller")
	}
	g, err := tree.New("box", Limits{Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := hold(t, g, "head -c 300000000 /dev/zero | tail -c 300000000 > /dev/null").Wait(); err == nil {
		t.Error("300 MB fit into 64 MiB")
	}
	if n, err := g.OOMKills(); err != nil || n != 1 {
		t.Errorf("%d kills, %v", n, err)
	}
	if n, err := g.Charged(); err != nil || n > 64<<20 {
		t.Errorf("charged %d, %v", n, err)
	}
	if _, err := g.Anonymous(); err != nil {
		t.Error(err)
	}
	cmd := hold(t, g, "sleep 600")
	if err := g.Remove(); err != nil { // with what is in it
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("what was in a removed group: %v", err)
	}
}

func TestPids(t *testing.T) {
	tree := openTree(t)
	if tree.By(Pids) == "" {
		t.Skip("no pids controller")
	}
	g, err := tree.New("box", Limits{Pids: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := hold(t, g, "for i in 1 2 3 4 5 6 7 8; do sleep 600 & done; exit 0").Wait(); err == nil {
		t.Error("8 processes in a group of 5")
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

func TestCPU(t *testing.T) {
	tree := openTree(t)
	if tree.By(CPU) == "" {
		t.Skip("no cpu controller")
	}
	g, err := tree.New("box", Limits{CPUs: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	if err := hold(t, g, "i=0; while test $i -lt 100000; do i=$((i+1)); done").Wait(); err != nil {
		t.Error(err)
	}
	if n, err := g.Throttled(); err != nil || n == 0 {
		t.Errorf("made to wait %d times, %v", n, err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// A second tree lives beside the first, and what a dead program left goes with
// what runs in it.
func TestTrees(t *testing.T) {
	first := openTree(t)
	if first.By(Pids) == "" {
		t.Skip("no pids controller")
	}
	dir := first.at[Pids].dir
	g, err := first.New("box", Limits{Pids: 50})
	if err != nil {
		t.Fatal(err)
	}
	orphan := hold(t, g, "sleep 600")
	second, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(second.at[Pids].dir) != filepath.Dir(dir) {
		t.Errorf("%s is not beside %s", second.at[Pids].dir, dir)
	}
	second.Close()
	if _, err := os.Stat(g.dirs[first.at[Pids]]); err != nil {
		t.Errorf("a living tree lost its group: %v", err)
	}
	for _, p := range first.at {
		p.lock.Close() // as if this program were killed
	}
	third, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if err := orphan.Wait(); err == nil {
		t.Error("an orphan lives on")
	}
	if _, err := os.Stat(g.dirs[first.at[Pids]]); err == nil {
		t.Error("a dead tree's group stays")
	}
}

// A group of version 2 that holds processes of others is left as it is.
func TestOthersStay(t *testing.T) {
	tree := openTree(t)
	if tree.By(Memory) != "cgroup-v2" {
		t.Skip("version 2 does not have the memory controller here")
	}
	dir := filepath.Dir(tree.at[Memory].dir) + "/shared"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	p, err := newPlace(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	outer := exec.Command("sh", "-c", "echo $$ > "+dir+"/cgroup.procs; sleep 600 & echo; wait")
	out, err := outer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := outer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = remove(dir) }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	err = divide(dir, p.dir, []string{Memory})
	if err == nil || !strings.Contains(err.Error(), "systemd-run") {
		t.Errorf("%v", err)
	}
	if pids, err := readPids(dir); err != nil || len(pids) != 2 {
		t.Errorf("%v were moved, %v", pids, err)
	}
	if err := write(dir+"/cgroup.kill", "1"); err != nil {
		t.Error(err)
	}
	_ = outer.Wait()
}

// Who goes in by a door, a single thread here, is in.
func TestDoors(t *testing.T) {
	tree := openTree(t)
	g, err := tree.New("box", Limits{Memory: 64 << 20, Pids: 50, CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	doors, _, err := g.Doors()
	if err != nil {
		t.Fatal(err)
	}
	if len(doors) == 0 {
		t.Skip("no hierarchy of version 1")
	}
	tid := make(chan int)
	leave := make(chan struct{})
	go func() {
		runtime.LockOSThread() // it ends in there
		for _, d := range doors {
			if _, err := unix.Write(d, []byte("0")); err != nil {
				t.Error(err)
			}
			unix.Close(d)
		}
		tid <- unix.Gettid()
		<-leave
		for p := range g.dirs {
			if err := os.WriteFile(filepath.Dir(p.dir)+"/tasks", []byte("0"), 0); err != nil && !p.v2 {
				t.Error(err)
			}
		}
		close(tid)
	}()
	me := strconv.Itoa(<-tid)
	defer func() {
		close(leave)
		<-tid
	}()
	for p, dir := range g.dirs {
		b, err := os.ReadFile(dir + "/tasks")
		if err != nil && !p.v2 || err == nil && strings.TrimSpace(string(b)) != me {
			t.Errorf("%s has %q, not %s: %v", dir, b, me, err)
		}
	}
}
