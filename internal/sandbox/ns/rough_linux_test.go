package ns

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// A source on the host that stalls in the middle of a file holds up no other
// sandbox: neither its birth nor what is put into it.
func TestStalledPutHoldsUpNobody(t *testing.T) {
	requireSandbox(t)
	_, st := openStore(t)
	b, err := Open(t.Context(), Config{Store: st, Warm: -1}) // every sandbox needs a birth
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s := arena(t, b)
	for _, size := range []int64{1 << 10, 4 << 20} { // within the first piece, and between two
		r, w := io.Pipe()
		put := make(chan error, 1)
		go func() { put <- s.Put(t.Context(), "/x", r) }()
		tw := tar.NewWriter(w)
		if err := tw.WriteHeader(&tar.Header{Name: "slow", Mode: 0o755, Size: size}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(bytes.Repeat([]byte("a"), int(size/2))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		other, err := b.Create(ctx, sandbox.Spec{Image: hostImage()})
		if err != nil {
			t.Fatalf("while %d of %d bytes have come: %v", size/2, size, err)
		}
		if err := other.Put(ctx, "/", archiveOf(t, "f", "quick")); err != nil {
			t.Errorf("while %d of %d bytes have come: %v", size/2, size, err)
		}
		if got := script(t, other, "cat /f"); got != "quick" {
			t.Errorf("%q", got)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if _, err := tw.Write(bytes.Repeat([]byte("b"), int(size-size/2))); err != nil {
			t.Fatal(err)
		}
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if err := <-put; err != nil {
			t.Error(err)
		}
		cancel()
		want := fmt.Sprintf("%d %d %d 755", size, size/2, size/2)
		if got := script(t, s, `cd /x; echo $(stat -c %s slow) $(tr -d b <slow | wc -c) $(tr -d a <slow | wc -c) $(stat -c %a slow)`); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Files of every size around that of a piece come over whole.
func TestPutSizes(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	const piece = 128 << 10
	for _, n := range []int{0, 1, piece - 1, piece, piece + 1, 2 * piece, 5*piece + 7} {
		text := strings.Repeat("0123456789abcdef", n/16+1)[:n]
		if err := s.Put(t.Context(), "/p", archiveOf(t, "f", text)); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		var out bytes.Buffer
		if err := s.Get(t.Context(), "/p/f", &out, 0); err != nil {
			t.Fatal(err)
		}
		r := tar.NewReader(&out)
		if h, err := r.Next(); err != nil || h.Mode != 0o640 || h.Size != int64(n) {
			t.Errorf("%d bytes: %+v, %v", n, h, err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != text {
			t.Errorf("%d bytes: %d came back, %v", n, len(got), err)
		}
	}
}

func archiveOf(t testing.TB, name, text string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o640, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// A search for files does not find devices, some of which never end.
func TestDevicesAreNoFiles(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	if got := script(t, s, "find /dev -type f; find /dev -type c | sort | tr '\\n' ' '"); got !=
		"/dev/full /dev/null /dev/pts/ptmx /dev/random /dev/tty /dev/urandom /dev/zero" {
		t.Errorf("%q", got)
	}
	if got := script(t, s, "grep -r --devices=skip nothing /dev; echo $?"); got != "1" {
		t.Errorf("a search through /dev: %q", got)
	}
}

// When the machine runs out of memory its kernel takes programs of sandboxes
// first, before assay.
func TestProgramsGoFirst(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	score := func(text string) int {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	if inside := score(script(t, s, "cat /proc/self/oom_score_adj")); inside < min(1000, max(score(string(own)), 0)+500) {
		t.Errorf("programs have %d, assay has %s", inside, own)
	}
	keeper, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", b.cmd.Process.Pid))
	if err != nil || string(keeper) != string(own) {
		t.Errorf("the keeper has %q, assay %q, %v", keeper, own, err)
	}
}

// The whole tree can be asked for, with all that is mounted from the host but
// what nobody inside can read.
func TestGetOfEverything(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(dir+"/d", 0o755), os.WriteFile(dir+"/d/f", []byte("host"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if realRoot() { // an ordinary user owns what it mounts
		if err := errors.Join(os.WriteFile(dir+"/secret", nil, 0o600), os.Mkdir(dir+"/closed", 0o700), os.WriteFile(dir+"/closed/f", nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.Create(t.Context(), sandbox.Spec{Image: image.Image{Name: "bare", Binds: []image.Bind{{Source: image.HostPath(dir), Target: "/x"}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out bytes.Buffer
	if err := s.Get(t.Context(), "/", &out, 1<<20); err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(h.Name, "x/") {
			names = append(names, h.Name)
		}
	}
	want := "x/ x/d/ x/d/f"
	if realRoot() {
		want = "x/ x/closed/ x/d/ x/d/f"
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := s.Get(t.Context(), "/x/secret", io.Discard, 0); realRoot() && !errors.Is(err, os.ErrPermission) {
		t.Errorf("asked for by its name: %v", err)
	}
}
