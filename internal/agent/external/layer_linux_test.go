package external

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/model/scripted"
	"assay/internal/sandbox"
	"assay/internal/sandbox/docker"
	"assay/internal/sandbox/ns"
	"assay/task"
)

// agentStore opens the store of ASSAY_AGENTS, in which agents are installed,
// and lists those of the table. The test skips where there is none.
func agentStore(t *testing.T) (*image.Store, sandbox.Backend, []Recipe) {
	t.Helper()
	dir := os.Getenv("ASSAY_AGENTS")
	if dir == "" {
		t.Skip("ASSAY_AGENTS names no store with agents; make one: assay --store DIR agent install codex claude-code pi mini-swe-agent")
	}
	store, err := image.Open(image.HostPath(dir), image.Options{Owner: ns.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: store, Scratch: image.HostPath(t.TempDir())})
	var refused *doctor.Refusal
	if errors.As(err, &refused) {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(); store.Close() })
	table, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	var found []Recipe
	only := os.Getenv("ASSAY_AGENTS_ONLY")
	for _, r := range table {
		if _, err := Find(store, r); err == nil && (only == "" || slices.Contains(strings.Split(only, ","), r.Name)) {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no agent of the table; assay --store %s agent install codex claude-code pi mini-swe-agent", dir, dir)
	}
	return store, b, found
}

// probe is run by an agent's shell tool, and without any agent. What it prints
// below the line must be the same.
const probe = `
env
command -v bash >/dev/null || echo NO_BASH=1
[ -e /etc/ssl/certs/ca-certificates.crt ] || echo NO_CERTS=1
echo ---
grep -o '/opt/assay.*' /proc/self/maps
sh -c 'readlink /proc/self/exe'
command -v ldd >/dev/null && ldd "$(command -v cat)" | sed 's/ (0x.*//'
command -v python3 >/dev/null && python3 -c 'import sys, json, ssl; print(sys.executable, sys.prefix, sys.path[1:], ssl.OPENSSL_VERSION)'
command -v node >/dev/null && node -p 'process.execPath + process.version'
command -v id >/dev/null && id -un
true
`

// leaks says what of a layer is in the environment of a task's command. What
// agents say of themselves in variables that have their name is theirs, and so
// are directories of their HOME in front of PATH. Agents whose recipe says so
// get a shell or certificates where the image has none.
func leaks(agent, env, bare string) (all []string) {
	word, _, _ := strings.Cut(agent, "-")
	own := strings.ToUpper(word) + "_"
	had := strings.Split(bare, "\n")
	for line := range strings.Lines(env) {
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, "=")
		given := agent == "claude-code" && name == "SHELL" && strings.Contains(bare, "NO_BASH=1\n") ||
			agent == "copilot" && name == "SSL_CERT_FILE" && strings.Contains(bare, "NO_CERTS=1\n")
		if slices.Contains(had, line) || strings.HasPrefix(name, own) || given {
			continue
		}
		switch {
		case name == "PATH":
			for _, d := range strings.Split(value, ":") {
				if agent == "copilot" && strings.Contains(d, "/ripgrep/") {
					continue // it puts it there itself, and its own search needs it
				}
				if !slices.Contains(had, "PATH="+value) && !strings.HasPrefix(d, string(ownHome)+"/") && !strings.Contains(bare, d) {
					all = append(all, "PATH has "+d)
				}
			}
		case strings.Contains(value, placeRoot), strings.HasPrefix(name, "LD_"), strings.HasPrefix(name, "PYTHON"),
			name == "NODE_OPTIONS", name == "NODE_PATH", name == "NODE_EXTRA_CA_CERTS", name == "SSL_CERT_FILE":
			all = append(all, line)
		}
	}
	return all
}

// A layer's agent solves a task beside whatever image the task has, with no
// network, and its shell tool runs the image's programs as if it were not
// there. The images are this machine's tools and those that
// ASSAY_AGENTS_IMAGES names in the store of ASSAY_AGENTS.
func TestBesideAnyImage(t *testing.T) {
	store, b, recipes := agentStore(t)
	images := []string{image.HostName}
	if more := os.Getenv("ASSAY_AGENTS_IMAGES"); more != "" {
		images = append(images, strings.Split(more, ",")...)
	}
	for _, name := range images {
		im, err := store.Resolve(name)
		if name == image.HostName {
			im, err = store.Host(t.Context(), image.HostOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		for _, r := range recipes {
			t.Run(name+"/"+r.Name, func(t *testing.T) {
				got := solve(t, store, b, im, r)
				if want == "" {
					sb := create(t, b, sandbox.Spec{Image: im})
					put(t, sb, "/project/probe.sh", probe)
					want = sh(t, sb, "cd /project; sh ./probe.sh 2>&1", "")
				}
				env, same, _ := strings.Cut(got, "---\n")
				bare, without, _ := strings.Cut(want, "---\n")
				if same != without {
					t.Errorf("the agent's shell tool sees\n%s\nand without it there is\n%s", same, without)
				}
				if l := leaks(r.Name, env, bare); len(l) > 0 {
					t.Errorf("the agent's shell tool has %q", l)
				}
			})
		}
	}
}

// Containers of an engine run the same layers.
func TestBesideDocker(t *testing.T) {
	store, b, recipes := agentStore(t)
	host := os.Getenv("DOCKER_HOST")
	name := os.Getenv("ASSAY_AGENTS_DOCKER_IMAGE")
	if host == "" || name == "" {
		t.Skip("needs an engine named by DOCKER_HOST, and ASSAY_AGENTS_DOCKER_IMAGE, an image of the store of ASSAY_AGENTS")
	}
	d, err := docker.Open(t.Context(), docker.Config{Store: store, Host: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	im, err := store.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recipes {
		if r.Name != "codex" && r.Name != "pi" && os.Getenv("ASSAY_AGENTS_ONLY") == "" {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			sb := create(t, b, sandbox.Spec{Image: im})
			put(t, sb, "/project/probe.sh", probe)
			bare, without, _ := strings.Cut(sh(t, sb, "cd /project; sh ./probe.sh 2>&1", ""), "---\n")
			env, same, _ := strings.Cut(solve(t, store, d, im, r), "---\n")
			if l := leaks(r.Name, env, bare); same != without || len(l) > 0 {
				t.Errorf("%q; %s\nwithout the agent %s", l, same, without)
			}
		})
	}
}

// solve lets an agent do a task by script, and returns what the probe printed.
func solve(t *testing.T, store *image.Store, b sandbox.Backend, im image.Image, r Recipe) string {
	t.Helper()
	i, err := Find(store, r)
	if err != nil {
		t.Fatal(err)
	}
	script := "sh ./probe.sh >probe.txt 2>&1; printf 'Hello, world!' >hello.txt"
	submit := "done"
	work := scripted.Intention{Bash: &script}
	if r.Name == "aider" { // it has no shell tool
		work = scripted.Intention{Write: &scripted.Write{Path: "hello.txt", Content: "Hello, world!"}}
	}
	model, err := scripted.New(&scripted.File{Turns: []scripted.Turn{
		{Calls: []scripted.Intention{work}}, {Calls: []scripted.Intention{{Submit: &submit}}}}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(r, Options{Layer: i.Record.Layer, NoRetries: true})
	if err != nil {
		t.Fatal(err)
	}
	brief := task.Brief{Task: "org/hello", Instruction: "Create hello.txt with exactly: Hello, world!"}
	needs, err := a.Needs(brief)
	if err != nil {
		t.Fatal(err)
	}
	sb := create(t, b, sandbox.Spec{Image: im, Mounts: needs.Mounts, Relays: []sandbox.Relay{{Port: 4180, Handle: relay(t, model)}}})
	for _, f := range needs.Files {
		put(t, sb, string(f.Path), string(f.Data))
	}
	put(t, sb, "/project/probe.sh", probe)
	logs := filepath.Join(t.TempDir(), "agent")
	rec := agent.NewRecorder(a.Info(), brief, nil)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 90*time.Second, agent.ErrDeadline)
	defer cancel()
	_, err = a.Run(ctx, agent.Session{Brief: brief, Sandbox: sb, Workdir: "/project", Recorder: rec, Logs: image.HostPath(logs),
		Model: &agent.Endpoint{URL: "http://127.0.0.1:4180", Model: "m", Key: "trial-key", Window: 64_000}})
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, sb, "cat /project/hello.txt || true", ""); strings.TrimSpace(got) != "Hello, world!" {
		out, _ := os.ReadFile(filepath.Join(logs, r.Name+".txt"))
		t.Fatalf("hello.txt holds %q after %d requests; the agent said\n%s", got, len(model.Requests()), out)
	}
	// Nothing of the layer, nor the place it stood at, is part of what was done.
	snap, err := sb.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, err := b.Commit(t.Context(), snap)
	if err != nil {
		t.Fatal(err)
	}
	m, err := store.Manifest(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.Entries {
		if e.Path == "opt" || strings.HasPrefix(e.Path, "opt/assay") {
			t.Errorf("the end state holds %s", e.Path)
		}
	}
	again := create(t, b, sandbox.Spec{Image: im, Extra: []image.LayerID{id}})
	if r.Name == "aider" {
		return sh(t, again, "cd /project; sh ./probe.sh 2>&1", "")
	}
	return sh(t, again, "cat /project/probe.txt", "")
}

// relay serves the connections of a sandbox's port.
func relay(t *testing.T, h http.Handler) func(context.Context, net.Conn) {
	l := &conns{c: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go srv.Serve(l) // ends with Close
	t.Cleanup(func() { srv.Close() })
	return func(ctx context.Context, c net.Conn) {
		held := &held{Conn: c, closed: make(chan struct{})}
		select {
		case l.c <- held:
		case <-l.done:
			c.Close()
			return
		}
		select { // a connection lasts as long as its handler
		case <-held.closed:
		case <-ctx.Done():
		case <-l.done:
		}
	}
}

// held tells when it is closed.
type held struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (h *held) Close() error {
	h.once.Do(func() { close(h.closed) })
	return h.Conn.Close()
}

// conns is a listener of connections that somebody else accepted.
type conns struct {
	c    chan net.Conn
	done chan struct{}
}

func (l *conns) Accept() (net.Conn, error) {
	select {
	case c := <-l.c:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *conns) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

func (l *conns) Addr() net.Addr { return &net.UnixAddr{Name: "relay", Net: "unix"} }

// What an agent's own programs load is the layer's, whatever the image's
// environment says.
func TestLoaderIsTheLayersOwn(t *testing.T) {
	store, b, recipes := agentStore(t)
	im, err := store.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recipes {
		i, err := Find(store, r)
		if err != nil {
			t.Fatal(err)
		}
		if i.Record.Libc == "" {
			continue
		}
		program := map[Runtime]string{RuntimeNode: "bin/node -e", RuntimePython: "bin/python3 -c"}[r.Install.Runtime]
		code := map[Runtime]string{RuntimeNode: `console.log(require("fs").readFileSync("/proc/self/maps", "utf8"), process.execPath)`,
			RuntimePython: `import ssl, sys; print(open("/proc/self/maps").read(), sys.executable)`}[r.Install.Runtime]
		sb := create(t, b, sandbox.Spec{Image: im, Mounts: []sandbox.Mount{i.Mount()}})
		if sh(t, sb, "ls "+string(i.Record.Place)+"/bin", "") == "" {
			t.Errorf("%s has no programs", r.Name)
		}
		if !strings.Contains(sh(t, sb, "ls "+string(i.Record.Place)+"/bin", ""), strings.Fields(program)[0][4:]) {
			continue // it brings its runtime with it
		}
		out := sh(t, sb, `LD_LIBRARY_PATH=/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu `+string(i.Record.Place)+"/"+program+` "$1"`, "", code)
		own := 0
		for line := range strings.Lines(out) {
			f := strings.Fields(line)
			if len(f) < 6 || !strings.HasPrefix(f[5], "/") {
				continue
			}
			own++
			if base := filepath.Base(f[5]); !strings.HasPrefix(f[5], string(i.Record.Place)) && (strings.HasPrefix(base, "libc.") || strings.HasPrefix(base, "ld-") || strings.HasPrefix(base, "libstdc++")) {
				t.Errorf("%s loaded %s", r.Name, f[5])
			}
		}
		if own == 0 || !strings.Contains(out, string(i.Record.Place)+"/") {
			t.Errorf("%s: %s", r.Name, out)
		}
	}
}

// Nobody can write into a layer, not even the sandbox's root.
func TestLayerIsReadOnly(t *testing.T) {
	store, b, recipes := agentStore(t)
	im, err := store.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i, err := Find(store, recipes[0])
	if err != nil {
		t.Fatal(err)
	}
	sb := create(t, b, sandbox.Spec{Image: im, Mounts: []sandbox.Mount{i.Mount()}})
	got := sh(t, sb, fmt.Sprintf("echo x >%[1]s/x || echo refused; touch %[1]s/bin || echo refused", i.Record.Place), "")
	if got != "refused\nrefused\n" {
		t.Error(got)
	}
	err = fs.WalkDir(os.DirFS(string(store.Dir(i.Record.Layer))), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && (p == notesDir || strings.HasSuffix(p, ".npmrc")) {
			return fmt.Errorf("the layer holds %s", p)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
