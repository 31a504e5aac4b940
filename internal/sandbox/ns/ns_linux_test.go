package ns

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"
	"unsafe"

	"assay/internal/image"
	"assay/internal/sandbox"
)

func TestMain(m *testing.M) {
	if code, ok := Main(os.Args); ok {
		os.Exit(code)
	}
	switch {
	case os.Args[0] == attackMarker || os.Getenv("ASSAY_ATTACK") != "":
		os.Exit(attack(os.Args))
	case os.Args[0] == victimMarker:
		os.Exit(victim(os.Args))
	}
	if os.Args[0] == brokenMarker {
		os.Exit(broken(os.Args))
	}
	os.Exit(m.Run())
}

func pointer[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }

// requireSandbox skips where the machine refuses sandboxes.
func requireSandbox(t testing.TB) {
	t.Helper()
	for _, f := range Probe(context.Background(), Config{Scratch: image.HostPath(t.TempDir())}) {
		if !f.OK {
			t.Skipf("no sandboxes here: %s: %s", f.Name, f.Detail)
		}
	}
}

func openStore(t testing.TB) (string, *image.Store) {
	t.Helper()
	return openStoreAt(t, t.TempDir())
}

func openStoreAt(t testing.TB, dir string) (string, *image.Store) {
	t.Helper()
	st, err := image.Open(image.HostPath(dir), image.Options{Owner: Owner(), Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	return dir, st
}

func open(t testing.TB) (*Backend, *image.Store) {
	t.Helper()
	_, st := openStore(t)
	b, err := Open(context.Background(), Config{Store: st, Scratch: image.HostPath(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, st
}

func isLost(err error) bool { return errors.Is(err, sandbox.ErrLost) }

func hostImage() image.Image {
	im := image.Image{Name: "test"}
	for _, d := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin"} {
		im.Binds = append(im.Binds, image.Bind{Source: image.HostPath(d), Target: image.Path(d)})
	}
	return im
}

func TestSmoke(t *testing.T) {
	b, _ := open(t)
	ctx := context.Background()
	t0 := time.Now()
	s, err := b.Create(ctx, sandbox.Spec{Image: hostImage()})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("create", time.Since(t0))
	for range 3 {
		t0 = time.Now()
		r, err := sandbox.Exec(ctx, s, sandbox.Command{Args: []string{"true"}}, sandbox.ExecOptions{})
		t.Log("exec", time.Since(t0), r, err)
	}
	r, err := sandbox.Exec(ctx, s, sandbox.Command{Args: []string{"sh", "-c", "id; ls -la / /dev /proc/self/fd; cat /proc/self/status | grep -i -e cap -e nonew; mount; ps ax; ulimit -a; env; hostname; echo hi > /etc.txt"}}, sandbox.ExecOptions{})
	t.Logf("%v %v\n%s%s", r.Exit, err, r.Stdout, r.Stderr)
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	tw.WriteHeader(&tar.Header{Name: "a/b", Mode: 0o640, Size: 3})
	tw.Write([]byte("abc"))
	tw.Close()
	if err := s.Put(ctx, "/x/y", &buf); err != nil {
		t.Fatal(err)
	}
	buf.Reset()
	if err := s.Get(ctx, "/x", &buf, 0); err != nil {
		t.Fatal(err)
	}
	t0 = time.Now()
	snap, err := s.Snapshot(ctx)
	t.Log("snapshot", time.Since(t0), err)
	t0 = time.Now()
	err = s.Reset(ctx, snap)
	t.Log("reset", time.Since(t0), err)
	t0 = time.Now()
	err = s.Reset(ctx, "")
	t.Log("reset", time.Since(t0), err)
	s2, err := b.Create(ctx, sandbox.Spec{Image: hostImage(), From: snap})
	if err != nil {
		t.Fatal(err)
	}
	r, err = sandbox.Exec(ctx, s2, sandbox.Command{Args: []string{"sh", "-c", "find /x -type f; cat /etc.txt"}}, sandbox.ExecOptions{})
	t.Logf("%v %v\n%s%s", r.Exit, err, r.Stdout, r.Stderr)
	id, err := b.Commit(ctx, snap)
	t.Log(id, err)
}
