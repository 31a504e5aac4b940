package docker_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	im, err := st.Import(t.Context(), image.HostPath(slim(t, tar)), "local/base:1")
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// slim leaves out of a root file system what is large and what no test needs.
func slim(t testing.TB, path string) string {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "slim.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r, w := tar.NewReader(in), tar.NewWriter(out)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(h.Name, "./")
		if slices.ContainsFunc([]string{"var/cache/apt/", "var/lib/apt/", "usr/share/locale/", "usr/share/man/", "usr/lib/git-core/"},
			func(d string) bool { return len(name) > len(d) && strings.HasPrefix(name, d) }) {
			continue
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Name()
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
	t.Run("services", func(t *testing.T) { services(t, st, im) })
	t.Run("same layers as ns", func(t *testing.T) { sameLayers(t, st, im) })
	t.Run("nothing stays of a killed process", func(t *testing.T) { killed(t, st, im) })
	t.Run("a bomb of processes", func(t *testing.T) { bomb(t, st, im) })
	t.Run("layers that the engine has lost", func(t *testing.T) { lost(t, st, im) })
	t.Run("an image of the engine", func(t *testing.T) { ofEngine(t, st, im) })
	t.Run("mounts", func(t *testing.T) { mounts(t, st, im) })
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
	far := open(t, st)
	for _, script := range work {
		var ids []image.LayerID
		for _, b := range []sandbox.Backend{far, near} {
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

// Programs that use up every process leave the first one all it needs, however
// much it has to do.
func bomb(t *testing.T, st *image.Store, im image.Image) {
	b := open(t, st)
	s, err := b.Create(t.Context(), sandbox.Spec{Image: im, Limits: sandbox.Limits{Pids: 20}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Start(t.Context(), sandbox.Command{Args: []string{"python3", "-c", "import os, time\nwhile True:\n  try:\n    if os.fork() == 0: time.sleep(600)\n  except OSError: time.sleep(0.01)"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if i%4 == 0 { // it may not start, and must not end anything
				if p, err := s.Start(t.Context(), sandbox.Command{Args: []string{"true"}}); err == nil {
					p.Close()
				}
				return
			}
			if err := s.Get(t.Context(), "/etc", io.Discard, 0); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, code := sh(t, s, "echo alive"); code != 0 || out != "alive\n" {
		t.Errorf("afterwards: %d %q", code, out)
	}
}

// newLayer is one that no engine has seen.
func newLayer(t *testing.T, st *image.Store, on []image.LayerID, content string) image.LayerID {
	w, err := st.NewLayer(t.Context(), on...)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Add(image.Entry{Path: "unseen", Type: image.TypeFile, Mode: 0o644, Size: int64(len(content))}, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// What an engine is wrongly believed to have is sent again.
func lost(t *testing.T, st *image.Store, im image.Image) {
	b := open(t, st)
	content := rand.Text()
	id := newLayer(t, st, nil, content)
	docker.Pretend(t, b, []image.LayerID{id})
	s, err := b.Create(t.Context(), sandbox.Spec{Image: image.Image{Name: "small", Layers: []image.LayerID{id}}, Extra: []image.LayerID{newLayer(t, st, []image.LayerID{id}, content+"!")}})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := s.Get(t.Context(), "/unseen", &out, 0); err != nil || !strings.Contains(out.String(), content+"!") {
		t.Errorf("%v", err)
	}
}

// An image that only the engine has is taken from it, with its configuration.
func ofEngine(t *testing.T, st *image.Store, im image.Image) {
	b := open(t, st)
	tag := "assay-test/" + strings.ToLower(rand.Text()) + ":1"
	name := docker.Make(t, engine(t), tag)
	other, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true, Owner: ns.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	b2 := open(t, other)
	got, err := b2.Image(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Config.Env) != 1 || got.Config.Env[0] != "WORD=engine" || got.Config.Workdir != "/here" {
		t.Errorf("%+v", got.Config)
	}
	var missing *image.MissingError
	for _, ref := range []string{"assay-test/none:1", "../../info", "UPPER/case"} {
		if _, err := b.Image(t.Context(), ref); !errors.As(err, &missing) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// Directories of this machine are mounted where the engine is on it.
func mounts(t *testing.T, st *image.Store, im image.Image) {
	b := open(t, st)
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/in", []byte("from outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	tw := tar.NewWriter(&layer)
	for _, h := range []*tar.Header{{Name: "bin", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "bin/tool", Mode: 0o755, Size: 28}} {
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(tw, "#!/bin/sh\necho from a layer\n"); err != nil {
		t.Fatal(err)
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	tools, err := st.FromTar(t.Context(), &layer, image.TarOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Create(t.Context(), sandbox.Spec{Image: im, Mounts: []sandbox.Mount{{Layer: tools, Target: "/own/tools", ReadOnly: true},
		{Host: image.HostPath(dir), Target: "/new/ro", ReadOnly: true}, {Host: image.HostPath(dir), Target: "/mnt"}}})
	if err != nil {
		t.Fatal(err)
	}
	out, code := sh(t, s, "cat /new/ro/in; (echo no > /new/ro/x) 2>/dev/null && echo written; echo out > /mnt/out; echo mine > /new/own")
	if code != 0 || out != "from outside" {
		t.Errorf("%d %q", code, out)
	}
	if out, _ := sh(t, s, "/own/tools/bin/tool; (echo no > /own/tools/x) 2>/dev/null && echo written"); out != "from a layer\n" {
		t.Errorf("a mounted layer: %q", out)
	}
	if got, err := os.ReadFile(dir + "/out"); err != nil || string(got) != "out\n" {
		t.Errorf("%q %v", got, err)
	}
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, err := b.Commit(t.Context(), snap)
	if err != nil {
		t.Fatal(err)
	}
	if m := manifest(st, id); strings.Contains(m, "out") || strings.Contains(m, "tools") || strings.Contains(m, "new/ro") || !strings.Contains(m, "new/own") {
		t.Errorf("what was mounted is in the layer, or what was not is missing:\n%s", m)
	}
	for _, m := range []sandbox.Mount{{Layer: tools, Target: "/l"}, {Host: "/no/such", Target: "/x"}} {
		if s, err := b.Create(t.Context(), sandbox.Spec{Image: im, Mounts: []sandbox.Mount{m}}); err == nil {
			s.Close()
			t.Errorf("%+v was mounted", m)
		}
	}
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
	if n := docker.Left(t, engine(t), owner); n < 9 { // keeper, its volume, sandbox, snapshot; another, a service, their network and volumes
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
	_, err = b.Create(context.Background(), sandbox.Spec{Image: im, Set: &sandbox.Set{Beside: []sandbox.Service{
		{Name: "db", Image: im, Args: []string{"sleep", "1000"}, Volumes: []sandbox.Volume{{Name: "v", Target: "/v"}, {Target: "/w"}}}}}})
	if err != nil {
		return err
	}
	fmt.Println(docker.Owner(b))
	select {}
}
