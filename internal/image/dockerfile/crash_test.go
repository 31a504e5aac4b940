package dockerfile_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/remove"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

// TestStoreSurvivesKill kills two processes at random moments, again and again
// on one store: one imports, builds and takes snapshots, all at once, the other
// collects. Whatever they had said was done must be there, byte by byte;
// nothing dangles, and nothing unfinished is left. ASSAY_STORE_CRASH sets how
// many moments (10), ASSAY_CRASH_SEED the seed.
func TestStoreSurvivesKill(t *testing.T) {
	if !sandboxesWork(t) {
		t.Skip("no sandbox here")
	}
	b := &bed{t: t, dir: t.TempDir()}
	t.Cleanup(func() { remove.Tree(b.dir) })
	n, seed := number("ASSAY_STORE_CRASH", 10), uint64(number("ASSAY_CRASH_SEED", int(time.Now().UnixNano())))
	rnd := rand.New(rand.NewPCG(seed, 0))
	full := b.reference()
	t.Logf("%d moments within %s, seed %d", n, 2*full, seed)
	for i := range n {
		b.round(time.Duration(rnd.Int64N(int64(2*full))), rnd.IntN(2) == 0, rnd.IntN(2) == 0)
		if t.Failed() {
			t.Fatalf("in round %d of seed %d", i, seed)
		}
	}
	t.Logf("survived: %v", b.seen)
}

func number(name string, standard int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return standard
}

func sandboxesWork(t *testing.T) bool {
	s, err := openStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: s})
	if err != nil {
		return false
	}
	return b.Close() == nil
}

func openStore(dir string) (*image.Store, error) {
	return image.Open(image.HostPath(dir), image.Options{Owner: ns.Owner()})
}

// bed is a store with its two processes and what they said.
type bed struct {
	t    *testing.T
	dir  string
	seen map[string]int // lines of the ledger by their first word
}

// child is this program in a role.
type child struct {
	cmd   *exec.Cmd
	words string     // file with what it said
	ended chan error // what Wait said
}

// start runs this program again in a role; its words go to a file, since a
// sandbox's processes may outlive it by a moment and hold a pipe.
func (b *bed) start(role string) child {
	b.t.Helper()
	out, err := os.Create(filepath.Join(b.dir, role+".out"))
	if err != nil {
		b.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	defer out.Close()
	c := child{exec.Command(self), out.Name(), make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), roleVar+"="+role+":"+b.dir)
	c.cmd.Stdout, c.cmd.Stderr = out, out
	if err := c.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	go func() { c.ended <- c.cmd.Wait() }()
	return c
}

// kill ends a process, which must have lived until then.
func (b *bed) kill(c child) {
	b.t.Helper()
	c.cmd.Process.Kill()
	err := <-c.ended
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		text, _ := os.ReadFile(c.words)
		b.t.Errorf("%s ended by itself: %v\n%s", filepath.Base(c.words), err, text)
	}
}

// reference lets the processes work until every kind of work was done, and
// says how long that took.
func (b *bed) reference() time.Duration {
	began := time.Now()
	worker, collector := b.start("work"), b.start("collect")
	for l := b.ledger(); l.kinds["image"] < 2 || l.kinds["built"] == 0 || l.kinds["end"] == 0 || l.kinds["collected"] == 0; l = b.ledger() {
		select {
		case err := <-worker.ended:
			worker.ended <- err
			b.kill(worker) // says why
			b.kill(collector)
			b.t.FailNow()
		case <-time.After(20 * time.Millisecond):
		}
	}
	full := time.Since(began)
	b.kill(worker)
	b.kill(collector)
	if b.t.Failed() {
		b.t.FailNow()
	}
	b.verify(true)
	return full
}

// round kills both at a moment after their start.
func (b *bed) round(at time.Duration, workerFirst, collect bool) {
	b.t.Helper()
	worker, collector := b.start("work"), b.start("collect")
	time.Sleep(at)
	if workerFirst {
		b.kill(worker)
		b.kill(collector)
	} else {
		b.kill(collector)
		b.kill(worker)
	}
	b.verify(collect)
}

// verify is what has to hold after a kill. Where it does not collect, the next
// round's collector finds what this one's worker left.
func (b *bed) verify(collect bool) {
	b.t.Helper()
	s, err := openStore(filepath.Join(b.dir, "store"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer s.Close()
	b.clean(s)
	l := b.ledger()
	b.seen = l.kinds
	whole := func(when string) {
		b.t.Helper()
		v, err := s.Verify(b.t.Context(), image.VerifyOptions{ReadData: true})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, p := range v.Problems {
			b.t.Errorf("%s: %+v", when, p)
		}
	}
	whole("after the kill")
	if collect {
		if _, err := s.GC(b.t.Context(), image.GCOptions{Young: -1}); err != nil {
			b.t.Error(err)
		}
		whole("after a collection")
	}
	for name, f := range l.images {
		im, err := s.Resolve(name)
		if err != nil {
			b.t.Errorf("a named image is lost: %v", err)
			continue
		}
		b.same(s, name, im.Layers, f)
	}
	for job, e := range l.ends {
		b.same(s, job, []image.LayerID{e.layer}, e.file)
	}
}

// clean looks that nothing unfinished is left once a store was opened.
func (b *bed) clean(s *image.Store) {
	b.t.Helper()
	var left []string
	for range 50 { // a program that was being started held locks for a moment longer
		left = nil
		for _, d := range []string{"tmp", "holds", "trash"} {
			all, err := os.ReadDir(filepath.Join(string(s.Root()), d))
			if err != nil {
				b.t.Fatal(err)
			}
			for _, e := range all {
				left = append(left, d+"/"+e.Name())
			}
		}
		if left = append(left, forgottenSecrets()...); len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
		if _, err := openStore(string(s.Root())); err != nil {
			b.t.Fatal(err)
		}
	}
	b.t.Errorf("left behind: %v", left)
}

// forgottenSecrets are directories of ours in memory that nobody holds.
func forgottenSecrets() (left []string) {
	all, _ := filepath.Glob("/dev/shm/assay-*")
	for _, p := range all {
		f, err := os.Open(p)
		if err != nil {
			continue // another user's
		}
		if fi, err := f.Stat(); err == nil && (int(fi.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() || os.Geteuid() == 0) &&
			syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			left = append(left, p)
		}
		f.Close()
	}
	return left
}

func (b *bed) same(s *image.Store, what string, stack []image.LayerID, f content) {
	b.t.Helper()
	v, err := s.View(stack)
	if err != nil {
		b.t.Errorf("%s: %v", what, err)
		return
	}
	got, err := v.ReadFile(f.path, 1<<20)
	if err != nil || string(got) != f.text {
		b.t.Errorf("%s: %s is %.40q, want %.40q: %v", what, f.path, got, f.text, err)
	}
}

// ledger is what the processes said was done: a line each, written when the
// store had said so, or for what is taken away, before the store is asked.
type ledger struct {
	kinds  map[string]int
	images map[string]content
	ends   map[string]endState
}

type content struct{ path, text string }

type endState struct {
	layer image.LayerID
	file  content
}

func (b *bed) ledger() ledger {
	l := ledger{map[string]int{}, map[string]content{}, map[string]endState{}}
	f, err := os.Open(filepath.Join(b.dir, "ledger"))
	if err != nil {
		return l
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		w := strings.Split(in.Text(), " ")
		l.kinds[w[0]]++
		switch w[0] {
		case "image", "built":
			l.images[w[1]] = content{w[2], w[3] + "\n"}
		case "end":
			l.ends[w[1]] = endState{image.LayerID(w[2]), content{w[3], w[4] + "\n"}}
		case "remove":
			delete(l.images, w[1])
			delete(l.ends, w[1])
		}
	}
	return l
}

const roleVar = "ASSAY_STORE_ROLE"

// storeRole is what this program does when it is started again; it ends only
// by being killed, or with an error.
func storeRole() (code int, ok bool) {
	role, dir, ok := strings.Cut(os.Getenv(roleVar), ":")
	if !ok {
		return 0, false
	}
	os.Unsetenv(roleVar) // not for the sandboxes' own processes
	w, err := newWorker(dir)
	if err == nil {
		if role == "collect" {
			err = w.collect()
		} else {
			err = w.work()
		}
	}
	fmt.Fprintln(os.Stderr, role, "failed:", err)
	return 1, true
}

type worker struct {
	dir  string
	s    *image.Store
	said *os.File
	id   string // of this process, in names
}

func newWorker(dir string) (*worker, error) {
	s, err := openStore(filepath.Join(dir, "store"))
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &worker{dir, s, f, strconv.FormatInt(time.Now().UnixNano(), 36)}, err
}

func (w *worker) say(format string, a ...any) error {
	_, err := fmt.Fprintf(w.said, format+"\n", a...)
	return err
}

// collect makes garbage and collects it: what the others made is theirs as long
// as they live.
func (w *worker) collect() error {
	for i := 0; ; i++ {
		for n := range 3 {
			root := filepath.Join(w.dir, "garbage", fmt.Sprintf("%s-%d-%d", w.id, i, n))
			if err := put(root+"/etc/x", root); err != nil {
				return err
			}
			if _, err := w.s.FromDir(context.Background(), image.HostPath(root), image.DirOptions{}); err != nil {
				return err
			}
			os.RemoveAll(root)
		}
		w.s.Close()
		c, err := w.s.GC(context.Background(), image.GCOptions{Young: -1})
		if err != nil {
			return err
		}
		if c.Layers > 0 {
			if err := w.say("collected"); err != nil {
				return err
			}
		}
	}
}

func (w *worker) work() error {
	b, err := ns.Open(context.Background(), ns.Config{Store: w.s, Scratch: image.HostPath(filepath.Join(w.dir, "scratch"))})
	if err != nil {
		return err
	}
	if _, err := w.s.Host(context.Background(), image.HostOptions{}); err != nil {
		return err
	}
	failed := make(chan error)
	for _, f := range []func(sandbox.Backend, string) error{w.imports, w.builds, w.snapshots} {
		go func() {
			for i := 0; ; i++ {
				if err := f(b, fmt.Sprintf("%s-%d", w.id, i)); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// imports makes an image of a directory, another one of its export, and takes
// an older one away.
func (w *worker) imports(_ sandbox.Backend, id string) error {
	ctx, root := context.Background(), filepath.Join(w.dir, "in", id)
	for p, text := range map[string]string{"etc/id": id + "\n", "bin/sh": "#!\n", "usr/share/same": "same\n", "usr/" + id: strings.Repeat(id, 5000)} {
		if err := put(filepath.Join(root, p), text); err != nil {
			return err
		}
	}
	defer os.RemoveAll(root)
	im, err := w.s.Import(ctx, image.HostPath(root), "dir/"+id)
	if err != nil {
		return err
	}
	if err := w.say("image dir/%s etc/id %s", id, id); err != nil {
		return err
	}
	archive, err := os.Create(root + ".tar")
	if err != nil {
		return err
	}
	defer os.Remove(archive.Name())
	if err := errors.Join(w.s.Export(ctx, im, image.FormatDocker, archive), archive.Close()); err != nil {
		return err
	}
	if _, err := w.s.Import(ctx, image.HostPath(archive.Name()), "save/"+id); err != nil {
		return err
	}
	if err := errors.Join(w.say("image save/%s etc/id %s", id, id), w.say("remove dir/%s", id)); err != nil {
		return err
	}
	return w.s.Remove("dir/" + id)
}

// builds builds two stages, with a secret in memory.
func (w *worker) builds(b sandbox.Backend, id string) error {
	dir := filepath.Join(w.dir, "build", id)
	defer os.RemoveAll(dir)
	if err := errors.Join(put(dir+"/data", id+"\n"), put(dir+"/Dockerfile", `FROM host AS one
COPY data /made/data
RUN --mount=type=secret,id=s --mount=type=bind,target=/ctx cat /ctx/data > /made/ran && test -s /run/secrets/s
FROM host
COPY --from=one /made/ran /made/ran
RUN cp /made/ran /made/out
`)); err != nil {
		return err
	}
	_, err := dockerfile.Build(context.Background(), dockerfile.Options{Store: w.s, Backend: b, Dir: image.HostPath(dir),
		Name: "built/" + id, Secrets: map[string][]byte{"s": []byte("secret")}})
	if err != nil {
		return err
	}
	return w.say("built built/%s made/out %s", id, id)
}

// snapshots leases the end state of a sandbox to a job, and removes the job
// before the last.
func (w *worker) snapshots(b sandbox.Backend, id string) error {
	ctx := context.Background()
	im, err := w.s.Resolve(image.HostName)
	if err != nil {
		return err
	}
	sb, err := b.Create(ctx, sandbox.Spec{Image: im})
	if err != nil {
		return err
	}
	defer sb.Close()
	r, err := sandbox.Exec(ctx, sb, sandbox.Command{Args: []string{"/bin/sh", "-c", "echo " + id + " > /end; echo x > /tmp/x"}}, sandbox.ExecOptions{Cap: 1 << 10})
	if err != nil || r.Exit.Code != 0 {
		return fmt.Errorf("in the sandbox: %+v, %w", r, err)
	}
	snap, err := sb.Snapshot(ctx)
	if err != nil {
		return err
	}
	layer, err := b.Commit(ctx, snap)
	if err != nil {
		return err
	}
	job := filepath.Join(w.dir, "jobs", id)
	if err := errors.Join(os.MkdirAll(job, 0o755), w.s.Lease(image.HostPath(job), layer), w.say("end %s %s end %s", job, layer, id)); err != nil {
		return err
	}
	if err := b.(sandbox.Dropper).Drop(snap); err != nil {
		return err
	}
	n := strings.LastIndexByte(id, '-')
	i, err := strconv.Atoi(id[n+1:])
	if err != nil || i < 2 {
		return err
	}
	old := filepath.Join(w.dir, "jobs", id[:n+1]+strconv.Itoa(i-2))
	return errors.Join(w.say("remove %s", old), os.RemoveAll(old))
}

func put(p, text string) error {
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, []byte(text), 0o644)
}
