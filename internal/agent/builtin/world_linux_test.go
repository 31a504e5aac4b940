package builtin

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/model"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
	"assay/internal/sandbox/ns/nstest"
	"assay/task"
	"assay/trajectory"
	"assay/trial"
)

// TestMain lets the test binary be the sandbox's own processes.
func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// opener makes sandboxes of this machine's tools with an empty /app.
func opener(t *testing.T) func() sandbox.Sandbox {
	t.Helper()
	dir := nstest.Dir(t)
	store, b := nstest.Open(t, dir, filepath.Join(dir, "store"))
	img := tools(t, store)
	return func() sandbox.Sandbox {
		sb, err := b.Create(t.Context(), sandbox.Spec{Image: img})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sb.Close() })
		return sb
	}
}

func tools(t *testing.T, store *image.Store) image.Image {
	t.Helper()
	w, err := store.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	img := image.Image{Name: "tools", Config: image.Config{Env: []string{"PATH=/usr/bin:/bin"}}}
	add := func(e image.Entry) {
		if err := w.Add(e, nil); err != nil {
			t.Fatal(err)
		}
	}
	add(image.Entry{Path: "app", Type: image.TypeDir, Mode: 0o755})
	add(image.Entry{Path: "tmp", Type: image.TypeDir, Mode: 0o777})
	for _, p := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		info, err := os.Lstat(p)
		switch {
		case err != nil:
		case info.IsDir():
			img.Binds = append(img.Binds, image.Bind{Source: image.HostPath(p), Target: image.Path(p)})
		default:
			to, err := os.Readlink(p)
			if err != nil {
				t.Fatal(err)
			}
			add(image.Entry{Path: p[1:], Type: image.TypeSymlink, Link: to})
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	img.Layers = []image.LayerID{id}
	return img
}

// sessionIn is a run in a sandbox with files.
func sessionIn(t *testing.T, sb sandbox.Sandbox, instruction string, files map[string]string) agent.Session {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Size: int64(len(text))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if len(files) > 0 {
		if err := sb.Put(t.Context(), "/", &b); err != nil {
			t.Fatal(err)
		}
	}
	brief := task.Brief{Task: "test/task", Instruction: instruction, Workdir: "/app"}
	return agent.Session{
		Brief: brief, Sandbox: sb, Workdir: "/app", Env: []string{"FROM_SESSION=yes"},
		Model:    &agent.Endpoint{Model: "tiny"},
		Recorder: agent.NewRecorder(trial.AgentInfo{Name: "x", Version: "1"}, brief, nil),
		Logs:     image.HostPath(filepath.Join(t.TempDir(), "agent")),
	}
}

// content is a file of the sandbox; "" if there is none.
func content(t *testing.T, s agent.Session, name string) string {
	t.Helper()
	res, err := sandbox.Exec(context.WithoutCancel(t.Context()), s.Sandbox, sandbox.Command{Args: []string{"/bin/sh", "-c", `cat -- "$0"`, name}, Dir: "/"},
		sandbox.ExecOptions{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return string(res.Stdout)
}

// script answers by the number of answers that a conversation holds already,
// so that one script serves many runs at once. It keeps what it was asked.
type script struct {
	turns []func(q model.Request) (model.Response, error)
	asked []model.Request // of the last run; read when it is over
	saw   func(q model.Request)
}

func (s *script) Complete(ctx context.Context, q model.Request) (model.Response, error) {
	if ctx.Err() != nil {
		return model.Response{}, context.Cause(ctx)
	}
	if s.saw != nil {
		s.saw(q)
	}
	n := 0
	for _, m := range q.Messages {
		if m.Role == model.RoleAssistant {
			n++
		}
	}
	return s.turns[min(n, len(s.turns)-1)](q)
}

func (s *script) connect(agent.Endpoint) (Completer, error) { return s, nil }

func plays(turns ...func(model.Request) (model.Response, error)) *script {
	return &script{turns: turns}
}

// calls is an answer with native calls: name, arguments, name, arguments, ….
func calls(pairs ...string) func(model.Request) (model.Response, error) {
	return func(model.Request) (model.Response, error) {
		var parts []model.Part
		for i := 0; i < len(pairs); i += 2 {
			parts = append(parts, model.Part{Kind: model.PartCall, Call: &model.Call{ID: "c" + pairs[i] + path.Base(pairs[i]), Name: pairs[i], Arguments: pairs[i+1]}})
		}
		return model.Response{Message: model.Message{Role: model.RoleAssistant, Parts: parts}, Stop: model.StopCalls}, nil
	}
}

func says(text string, stop model.Stop) func(model.Request) (model.Response, error) {
	return func(model.Request) (model.Response, error) {
		return model.Response{Message: model.Message{Role: model.RoleAssistant, Parts: []model.Part{{Kind: model.PartText, Text: text}}}, Stop: stop}, nil
	}
}

func fails(e model.Error) func(model.Request) (model.Response, error) {
	return func(model.Request) (model.Response, error) { return model.Response{}, &e }
}

// react runs a strategy with a script.
func react(t *testing.T, s agent.Session, strategy string, p *script) agent.Report {
	t.Helper()
	st, err := ParseStrategy(strategy, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewReact(st, p.connect)
	if err != nil {
		t.Fatal(err)
	}
	p.asked = nil
	p.saw = func(q model.Request) { p.asked = append(p.asked, q) }
	report, err := a.Run(t.Context(), s)
	if err != nil {
		t.Fatalf("%v\n%s", err, transcriptOf(s))
	}
	return report
}

// transcriptOf is a run's transcript.
func transcriptOf(s agent.Session) string {
	b, err := os.ReadFile(filepath.Join(string(s.Logs), "react.txt"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// steps is the recorder's document, which must be valid.
func steps(t *testing.T, s agent.Session) *trajectory.Trajectory {
	t.Helper()
	doc := s.Recorder.Document()
	b, err := trajectory.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range trajectory.Validate(b) {
		t.Errorf("trajectory: %s", f)
	}
	return doc
}
