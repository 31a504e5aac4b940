package docker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/docker"
	"assay/internal/sandbox/docker/inside"
	"assay/internal/sandbox/ns"
	"assay/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	if code, handled := inside.Main(os.Args); handled {
		os.Exit(code)
	}
	if code, handled := ns.Main(os.Args); handled {
		os.Exit(code)
	}
	if what := os.Getenv(victim); what != "" {
		fmt.Fprintln(os.Stderr, dieSlowly(what))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// engine is the address of a real one.
func engine(t testing.TB) string {
	t.Helper()
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		t.Skip("needs a Docker engine named by DOCKER_HOST")
	}
	return host
}

func store(t testing.TB) *image.Store {
	t.Helper()
	st, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true, Owner: ns.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// base is an image that both the engine's tests and the others know.
func base(t testing.TB, st *image.Store) image.Image {
	t.Helper()
	tar := os.Getenv("ASSAY_BASE_TAR")
	if tar == "" {
		t.Skip("needs a Debian root file system named by ASSAY_BASE_TAR")
	}
	im, err := st.Import(t.Context(), image.HostPath(tar), "local/base:1")
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func open(t testing.TB, st *image.Store) *docker.Backend {
	t.Helper()
	b, err := docker.Open(context.Background(), docker.Config{Store: st, Host: engine(t)})
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

func TestConformance(t *testing.T) {
	engine(t)
	st := store(t)
	im := base(t, st)
	sandboxtest.Run(t, sandboxtest.Subject{
		New:   func(t testing.TB) sandbox.Backend { return open(t, st) },
		Image: im, Walls: true, Slow: true,
	})
	t.Run("same layers as ns", func(t *testing.T) { sameLayers(t, st, im) })
	t.Run("nothing stays of a killed process", func(t *testing.T) { killed(t, st, im) })
	t.Run("no directories of this machine", func(t *testing.T) {
		_, err := open(t, st).Create(t.Context(), sandbox.Spec{Image: image.Image{Name: "host", Binds: []image.Bind{{Source: "/usr", Target: "/usr"}}}})
		if !errors.Is(err, sandbox.ErrUnsupported) || !strings.Contains(err.Error(), "assay image import") {
			t.Errorf("%v", err)
		}
	})
}

// Equal work has one layer id, whichever backend it was done in.
func sameLayers(t *testing.T, st *image.Store, im image.Image) {
	near, err := ns.Open(context.Background(), ns.Config{Store: st, Scratch: image.HostPath(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	work := []string{
		"mkdir -p /d/sub; echo a > /d/a; chmod 640 /d/a; ln /d/a /d/hard; ln -s a /d/l; mkfifo /d/p; chmod 1777 /d/sub",
		"rm /etc/debian_version; echo x >> /etc/profile",
		"rm -r /etc/apt; mkdir /etc/apt; echo new > /etc/apt/new",
		"rm -r /etc/apt; echo a file > /etc/apt",
		"mv /etc/profile /etc/profile.old; touch -r /etc/passwd /etc/profile.old; echo tmp > /tmp/t",
		"printf '%s' same > /etc/hostile; chmod 4755 /etc/hostile; rm -f /usr/share/doc/*/copyright",
	}
	for _, script := range work {
		var ids []image.LayerID
		for _, b := range []sandbox.Backend{open(t, st), near} {
			s, err := b.Create(t.Context(), sandbox.Spec{Image: im})
			if err != nil {
				t.Fatal(err)
			}
			r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"sh", "-c", script}}, sandbox.ExecOptions{})
			if err != nil || r.Exit.Code != 0 {
				t.Fatalf("%s: %+v %v %s", script, r.Exit, err, r.Stderr)
			}
			snap, err := s.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id, err := b.Commit(t.Context(), snap)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
			s.Close()
		}
		if ids[0] != ids[1] {
			t.Errorf("%s\ndocker: %s\nns: %s", script, manifest(st, ids[0]), manifest(st, ids[1]))
		}
	}
}

func manifest(st *image.Store, id image.LayerID) string {
	m, err := st.Manifest(id)
	if err != nil {
		return err.Error()
	}
	return string(m.Encode())
}

const victim = "ASSAY_DOCKER_VICTIM"

// killed lets another process make sandboxes and snapshots, and kills it.
func killed(t *testing.T, st *image.Store, im image.Image) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victim+"="+string(st.Root())+"\n"+im.Name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the victim said %q: %v", line, err)
	}
	owner := strings.TrimSpace(line)
	if n := docker.Left(t, engine(t), owner); n < 4 { // keeper, sandbox, snapshot, volume
		t.Fatalf("only %d things are there before the kill", n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		b := open(t, st)
		b.Close()
		n := docker.Left(t, engine(t), owner)
		if n == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d things of the killed process stay", n)
		}
	}
}

func dieSlowly(what string) error {
	root, name, _ := strings.Cut(what, "\n")
	st, err := image.Open(image.HostPath(root), image.Options{Volatile: true, Owner: ns.Owner()})
	if err != nil {
		return err
	}
	im, err := st.Resolve(name)
	if err != nil {
		return err
	}
	b, err := docker.Open(context.Background(), docker.Config{Store: st, Host: os.Getenv("DOCKER_HOST")})
	if err != nil {
		return err
	}
	s, err := b.Create(context.Background(), sandbox.Spec{Image: im})
	if err != nil {
		return err
	}
	if _, err := s.Snapshot(context.Background()); err != nil {
		return err
	}
	fmt.Println(docker.Owner(b))
	select {}
}
