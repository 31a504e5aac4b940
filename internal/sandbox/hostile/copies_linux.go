package hostile

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// archive packs entries; a body makes a file of one that has no type.
func archive(entries ...tar.Header) io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		body := ""
		if h.Typeflag == 0 {
			h.Typeflag, body = tar.TypeReg, "planted"
			h.Size = int64(len(body))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err == nil {
			_, _ = io.WriteString(w, body) // a bytes.Buffer takes all
		}
	}
	_ = w.Close()
	return &b
}

// planted reports whether something of ours was written to the host's bait.
func (f *field) planted() bool {
	names, err := os.ReadDir(f.dir)
	b, rerr := os.ReadFile(filepath.Join(f.dir, "secret"))
	return err != nil || rerr != nil || len(names) != 1 || string(b) != bait
}

// puts lets the host unpack an archive that may contain the name of the bait.
func puts(dst string, before []string, entries func(dir string) []tar.Header) func(*field) (bool, string, error) {
	return func(f *field) (bool, string, error) {
		if before != nil {
			if worked, detail, err := f.inside(append(before, f.dir)...); err != nil || !worked {
				return false, detail, fmt.Errorf("prepare: %s %w", detail, err)
			}
		}
		err := f.s.Put(f.ctx, image.Path(strings.ReplaceAll(dst, "BAIT", f.dir)), archive(entries(f.dir)...))
		return f.planted(), fmt.Sprint("put: ", err), nil
	}
}

// manyRounds is when an attack that only wins at times gives up.
const manyRounds = 2000

// races copies to or from the tree while it is swapped, until it is led astray
// or often enough: with walls, three times as often as it took to win without.
func races(swapper string, once func(ctx context.Context, f *field) (bool, error)) func(*field) (bool, string, error) {
	return func(f *field) (bool, string, error) {
		stop, err := f.begin(swapper, f.dir)
		if err != nil {
			return false, "", err
		}
		defer stop()
		rounds := min(max(3*f.won, fewRounds), manyRounds)
		if f.off != 0 {
			rounds = manyRounds
		}
		var last error
		for f.round = 1; f.round <= rounds; f.round++ {
			ctx, cancel := context.WithTimeout(f.ctx, 3*time.Second)
			led, err := once(ctx, f)
			hung := ctx.Err() != nil
			cancel()
			if led || hung {
				return true, fmt.Sprintf("in round %d; it hung: %v", f.round, hung), nil
			}
			last = err
		}
		return false, fmt.Sprintf("%d rounds, the last one: %v", rounds, last), nil
	}
}

// fewRounds are made in any case.
const fewRounds = 60

// getsBait reports whether a tar stream, or its error, tells the bait.
func (f *field) getsBait(ctx context.Context, s sandbox.Trees, path image.Path) (bool, error) {
	var b bytes.Buffer
	err := s.Get(ctx, path, &b, 1<<20)
	return bytes.Contains(b.Bytes(), []byte(bait)), err
}

func getRace(path image.Path) func(context.Context, *field) (bool, error) {
	return func(ctx context.Context, f *field) (bool, error) { return f.getsBait(ctx, f.s, path) }
}

func putRace(ctx context.Context, f *field) (bool, error) {
	err := f.s.Put(ctx, "/race/x", archive(tar.Header{Name: "planted"}))
	return f.planted(), err
}

// peekRace looks for the bait in a copy of the running tree.
func peekRace(ctx context.Context, f *field) (bool, error) {
	snap, err := f.s.Peek(ctx)
	if err != nil {
		return false, err
	}
	if d, ok := f.b.(sandbox.Dropper); ok {
		defer d.Drop(snap)
	}
	spec := f.spec
	spec.From = snap
	fork, err := f.b.Create(ctx, spec)
	if err != nil {
		return false, err
	}
	defer fork.Close()
	return f.getsBait(ctx, fork, "/race")
}

// fills counts what comes, and ends it when it is too much.
type fills struct{ n, most int64 }

func (w *fills) Write(b []byte) (int, error) {
	if w.n += int64(len(b)); w.n > w.most {
		return 0, errors.New("too much came")
	}
	return len(b), nil
}

// floods makes a tree that is more than the host asked for, and gets it.
func floods(prepare, path string, most int64) func(*field) (bool, string, error) {
	return func(f *field) (bool, string, error) {
		if worked, detail, err := f.inside(prepare); err != nil {
			return false, detail, err
		} else if !worked && prepare != "fill the inodes" {
			return false, detail, errors.New("prepare: " + detail)
		}
		w := &fills{most: 4 * most}
		err := f.s.Get(f.ctx, image.Path(path), w, most)
		return w.n > w.most || err == nil, fmt.Sprintf("%d bytes of at most %d: %v", w.n, most, err), nil
	}
}

// deepNames gets a deep tree and looks for names that no path can have.
func deepNames(f *field) (bool, string, error) {
	if worked, detail, err := f.inside("dig deep"); err != nil || !worked {
		return false, detail, fmt.Errorf("prepare: %s %w", detail, err)
	}
	r, w := io.Pipe()
	longest := make(chan int, 1)
	go func() {
		n := 0
		for tr := tar.NewReader(r); ; {
			h, err := tr.Next()
			if err != nil {
				_, _ = io.Copy(io.Discard, r)
				longest <- n
				return
			}
			n = max(n, len(h.Name))
		}
	}()
	err := f.s.Get(f.ctx, "/deep", w, 0)
	w.Close()
	n := <-longest
	return n > 10000, fmt.Sprintf("the longest name has %d bytes: %v", n, err), nil
}

// growing gets a file that changes all the time: each copy must be whole.
func growing(ctx context.Context, f *field) (bool, error) {
	err := f.s.Get(ctx, "/growing", io.Discard, 64<<20)
	return err != nil, err
}

// kernelFiles asks for files whose reading or writing is an act of the keeper.
func kernelFiles(f *field) (bool, string, error) {
	var b bytes.Buffer
	err := f.s.Get(f.ctx, "/proc/1/environ", &b, 1<<20)
	return err == nil && b.Len() > 0, fmt.Sprint(err), nil
}

// lateWrites leaves a daemon behind and looks whether it lives on when the tree
// is frozen.
func lateWrites(f *field) (bool, string, error) {
	if _, detail, err := f.inside("daemon", "/beat"); err != nil {
		return false, detail, err
	}
	snap, err := f.s.Snapshot(f.ctx)
	if err != nil {
		return false, "", err
	}
	read := func() string {
		spec := f.spec
		spec.From = snap
		fork, err := f.b.Create(f.ctx, spec)
		if err != nil {
			return err.Error()
		}
		defer fork.Close()
		var b bytes.Buffer
		if err := fork.Get(f.ctx, "/beat", &b, 1<<20); err != nil {
			return err.Error()
		}
		return b.String()
	}
	before := read()
	time.Sleep(200 * time.Millisecond)
	return read() != before, "the frozen file was read twice", nil
}

// survives leaves a daemon behind and looks whether it lives on when its
// sandbox is closed.
func survives(f *field) (bool, string, error) {
	beat := filepath.Join(f.dir, "beat")
	if f.naked {
		c := bareCommand("daemon", beat)
		if out, err := c.CombinedOutput(); err != nil {
			return false, string(out), err
		}
	} else {
		if _, detail, err := f.inside("daemon", "/bait/beat"); err != nil {
			return false, detail, err
		}
		if err := f.s.Close(); err != nil {
			return false, "", err
		}
		var err error // wellAfter needs one
		if f.s, err = f.b.Create(f.ctx, f.spec); err != nil {
			return false, "", err
		}
	}
	before, err := os.ReadFile(beat)
	if err != nil {
		return false, "", err
	}
	time.Sleep(300 * time.Millisecond)
	after, err := os.ReadFile(beat)
	return err == nil && string(before) != string(after), fmt.Sprintf("its heart beat to %s, then to %s", before, after), err
}

// beside makes the attack while somebody else's program runs: in another
// sandbox, or without any.
func beside(killed bool) func(*field) (bool, string, error) {
	return func(f *field) (bool, string, error) {
		if f.naked {
			v := bareCommand("victim", f.dir)
			out, err := v.StdoutPipe()
			if err != nil {
				return false, "", err
			}
			if err := v.Start(); err != nil {
				return false, "", err
			}
			_, _ = out.Read(make([]byte, 6))
			ended := make(chan error, 1)
			go func() { ended <- v.Wait() }()
			said, err := bareCommand(f.a.name).CombinedOutput()
			if err != nil {
				return false, string(said), err
			}
			if killed {
				select {
				case err := <-ended:
					return true, fmt.Sprint("the victim ended: ", err), nil
				case <-time.After(2 * time.Second):
					return false, "the victim lives", nil
				}
			}
			return parse(string(said), "", 0)
		}
		victims, err := f.b.Create(f.ctx, f.spec)
		if err != nil {
			return false, "", err
		}
		defer victims.Close()
		v, err := victims.Start(f.ctx, sandbox.Command{Args: []string{marker, "victim", "/"}, Env: attackerEnv()})
		if err != nil {
			return false, "", err
		}
		defer v.Close()
		_, _ = v.Stdout().Read(make([]byte, 6))
		worked, detail, err := f.inside(f.a.name)
		if err != nil || !killed {
			return worked, detail, err
		}
		ctx, cancel := context.WithTimeout(f.ctx, 300*time.Millisecond)
		defer cancel()
		_, err = v.Wait(ctx)
		return err == nil || errors.Is(err, sandbox.ErrLost), "the victim: " + fmt.Sprint(err), nil
	}
}

// relayFlood counts the connections that reach the host at once.
func relayFlood() (func(*sandbox.Spec), func(*field) (bool, string, error)) {
	var now, most atomic.Int64
	spec := func(s *sandbox.Spec) {
		s.Limits.OpenFiles = 1024
		s.Relays = []sandbox.Relay{{Port: 8088, Handle: func(ctx context.Context, c net.Conn) {
			defer c.Close()
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			_, _ = io.Copy(io.Discard, c)
			now.Add(-1)
		}}}
	}
	return spec, func(f *field) (bool, string, error) {
		_, detail, err := f.inside("relay flood")
		return most.Load() > 300, fmt.Sprintf("%d at once; %s", most.Load(), detail), err
	}
}

// huge starts a program with more arguments than a message takes.
func huge(f *field) (bool, string, error) {
	big := strings.Repeat("x", 1<<20)
	args := []string{marker, "alive"}
	for range 9 {
		args = append(args, big)
	}
	_, err := f.s.Start(f.ctx, sandbox.Command{Args: args})
	return err == nil || errors.Is(err, sandbox.ErrLost), fmt.Sprintf("%.200v", err), nil
}

// typed injects into one terminal and reads another.
func typed(f *field) (bool, string, error) {
	out := ""
	for _, name := range []string{"terminal injection", "read the terminal"} {
		p, err := f.s.Start(f.ctx, sandbox.Command{Args: []string{marker, name}, Env: attackerEnv(), TTY: &sandbox.Size{Rows: 24, Cols: 80}})
		if err != nil {
			return false, "", err
		}
		b, err := io.ReadAll(p.Stdout())
		p.Close()
		if err != nil {
			return false, "", err
		}
		out = strings.ReplaceAll(string(b), "\r\n", "\n")
	}
	return parse(out, "", 0)
}

// layerWrite writes through a mounted layer.
func layerWrite(f *field) (bool, string, error) {
	_, detail, err := f.inside("write a read-only mount")
	return f.planted(), detail, err
}

func replaceBait(name, up, dir string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "UP", up), "BAIT", dir)
}

// getLink asks for what lies behind links to the host.
func getLink(f *field) (bool, string, error) {
	if worked, detail, err := f.inside("plant links", f.dir); err != nil || !worked {
		return false, detail, fmt.Errorf("prepare: %s %w", detail, err)
	}
	led, err := f.getsBait(f.ctx, f.s, "/desk/keeper/secret")
	return led, fmt.Sprint(err), nil
}

// rings lets the host copy where links lead in circles. There is nothing, and
// that is what it must say: whatever else would be a fault of the machine.
func rings(f *field) (bool, string, error) {
	if worked, detail, err := f.inside("plant rings"); err != nil || !worked {
		return false, detail, fmt.Errorf("prepare: %s %w", detail, err)
	}
	var said []string
	worked := false
	for _, p := range []image.Path{"/desk/a/x", "/desk/self/x/y"} {
		err := f.s.Get(f.ctx, p, io.Discard, 1<<20)
		worked = worked || !errors.Is(err, fs.ErrNotExist)
		said = append(said, fmt.Sprint("get: ", err))
		err = f.s.Put(f.ctx, p, archive(tar.Header{Name: "planted"}))
		worked = worked || err == nil || errors.Is(err, sandbox.ErrLost)
		said = append(said, fmt.Sprint("put: ", err))
	}
	return worked, strings.Join(said, "; "), nil
}

// hardLink lets an archive link the host's bait into the tree.
func hardLink(f *field) (bool, string, error) {
	err := f.s.Put(f.ctx, "/x", archive(tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../../../../../../host" + f.dir + "/secret"}))
	return err == nil, fmt.Sprint(err), nil
}
