package grade

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
)

// Place is where something can be run and copied from.
type Place interface {
	sandbox.Starter
	sandbox.Trees
}

// CollectRequest asks for what an agent left for people, and for a separate
// verifier, to look at.
type CollectRequest struct {
	Sandbox Place
	// Beside finds another service of the agent's; nil: there is none.
	Beside  func(service string) (Place, bool)
	Key     task.Key
	Env     []string   // of the collect hooks, resolved
	Workdir image.Path // where the hooks run

	Logs      image.HostPath // the trial's agent/ directory: gets /logs/agent, beside what is there; empty: not wanted
	Artifacts image.HostPath // the trial's artifacts/ directory
}

const (
	maxArtifacts     = 1 << 30 // bytes, of one artifact
	maxArtifactFiles = 100_000
	hookTimeout      = 60 * time.Second // Harbor's default
)

// ownLogs are the records that the harness itself keeps in agent/, some of them
// after the agent's logs were copied: a file or directory of the agent's in their
// place would be believed, or end the trial as a fault of the machine.
var ownLogs = []string{"trajectory.json", "workspace.diff", "prediction.json", "egress.ndjson", "model", "services"}

// Collect runs the collect hooks and copies logs and artifacts to the host. It
// is best effort, as in Harbor: what fails is noted and stands as "failed" in
// the manifest. An error is a fault of the machine or the end of ctx.
func Collect(ctx context.Context, r CollectRequest) (notes []string, err error) {
	for _, h := range r.Key.Collect {
		if n := r.hook(ctx, h); n != "" {
			notes = append(notes, n)
		}
		if ctx.Err() != nil {
			return notes, context.Cause(ctx)
		}
	}
	if r.Logs != "" {
		k := keep{bytes: maxArtifacts, files: maxArtifactFiles, fresh: true, own: ownLogs}
		got, err := k.tree(ctx, r.Sandbox, "/"+logsDir+"/agent", string(r.Logs))
		notes = appendNote(notes, got.note("/logs/agent"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			notes = append(notes, fmt.Sprintf("/logs/agent could not be copied: %v", err))
		}
	}
	if ctx.Err() != nil {
		return notes, context.Cause(ctx)
	}
	more, err := r.artifacts(ctx)
	return append(notes, more...), err
}

// hook runs one collect hook and says how it failed, if it did.
func (r CollectRequest) hook(ctx context.Context, h task.CollectHook) string {
	short := clip(h.Command)
	at, dir, ok := r.Sandbox, r.Workdir, true
	if h.Service != "" && h.Service != mainService {
		if at, ok = r.place(h.Service); !ok {
			return fmt.Sprintf("collect hook %q skipped: there is no service %q", short, h.Service)
		}
		dir = "" // the service's own
	}
	limit := hookTimeout
	if h.TimeoutSec != nil && *h.TimeoutSec > 0 {
		limit = time.Duration(*h.TimeoutSec * float64(time.Second))
	}
	res, err := sandbox.Exec(ctx, at, sandbox.Command{
		Args: []string{"/bin/sh", "-c", h.Command}, Env: r.Env, Dir: dir, User: h.User,
	}, sandbox.ExecOptions{Timeout: limit, Grace: defaultGrace, Cap: 4 << 10})
	switch {
	case err != nil:
		return fmt.Sprintf("collect hook %q failed: %v", short, err)
	case res.TimedOut:
		return fmt.Sprintf("collect hook %q ended after %v", short, limit)
	case res.Exit.Code != 0:
		return fmt.Sprintf("collect hook %q exited with %d: %s", short, res.Exit.Code, clip(strings.TrimSpace(string(res.Stderr))))
	}
	return ""
}

// place is a service: the agent's own, or one beside it.
func (r CollectRequest) place(service string) (Place, bool) {
	if service == mainService {
		return r.Sandbox, true
	}
	if r.Beside == nil {
		return nil, false
	}
	return r.Beside(service)
}

// artifacts copies every entry and writes the manifest.
func (r CollectRequest) artifacts(ctx context.Context) ([]string, error) {
	if err := os.MkdirAll(string(r.Artifacts), 0o755); err != nil {
		return nil, err
	}
	var notes []string
	var lines []manifestEntry
	var taken claims
	for _, a := range artifacts(r.Key) {
		line, note := r.artifact(ctx, a, &taken)
		if ctx.Err() != nil {
			return notes, context.Cause(ctx)
		}
		lines = append(lines, line)
		notes = appendNote(notes, note)
	}
	b, err := json.MarshalIndent(lines, "", "  ")
	if err != nil {
		return notes, err
	}
	at := filepath.Join(string(r.Artifacts), manifestFile)
	if err := os.RemoveAll(at); err != nil { // an agent's file of that name is not the manifest
		return notes, err
	}
	return notes, os.WriteFile(at, b, 0o644)
}

// artifact copies one entry.
func (r CollectRequest) artifact(ctx context.Context, a task.Artifact, taken *claims) (manifestEntry, string) {
	at := hostName(a)
	line := manifestEntry{Source: a.Source, Destination: path.Join("artifacts", at), Type: "file", Status: "failed", Exclude: []string{}}
	if a.Service != "" {
		line.Service = &a.Service
	}
	if taken.conflict(a) {
		line.Status = "skipped"
		if path.Ext(a.Source) == "" {
			line.Type, line.Exclude = "directory", orEmpty(a.Exclude)
		}
		return line, fmt.Sprintf("artifact %q skipped: its place %q is taken by an earlier one", a.Source, line.Destination)
	}
	*taken = append(*taken, a)
	from, ok := r.place(serviceOf(a))
	if !ok {
		return line, fmt.Sprintf("artifact %q failed: there is no service %q", a.Source, a.Service)
	}
	dir, err := isDir(ctx, from, from, containerPath(a.Source))
	if isConvention(a) && errors.Is(err, fs.ErrNotExist) {
		line.Type, line.Status, line.Exclude = "directory", "empty", orEmpty(a.Exclude)
		return line, ""
	}
	if err != nil {
		return line, fmt.Sprintf("artifact %q failed: %v", a.Source, err)
	}
	if dir {
		line.Type, line.Exclude = "directory", orEmpty(a.Exclude)
	}
	got, err := r.copy(ctx, from, a, dir, at)
	if err != nil {
		return line, fmt.Sprintf("artifact %q failed: %v", a.Source, err)
	}
	line.Status = "ok"
	return line, got.note("artifact " + a.Source)
}

// copy takes one artifact to its place below the artifacts directory.
func (r CollectRequest) copy(ctx context.Context, from sandbox.Trees, a task.Artifact, dir bool, at string) (kept, error) {
	k := keep{bytes: maxArtifacts, files: maxArtifactFiles, links: true}
	if len(a.Exclude) > 0 {
		k.skip = tarGlobs(a.Exclude)
	}
	host, err := makeBelow(string(r.Artifacts), at, dir)
	if err != nil {
		return kept{}, err
	}
	if dir {
		return k.tree(ctx, from, containerPath(a.Source), host)
	}
	b, err := os.MkdirTemp(string(r.Artifacts), ".file-")
	if err != nil {
		return kept{}, err
	}
	defer os.RemoveAll(b)
	k.skip = nil
	got, err := k.tree(ctx, from, containerPath(a.Source), b)
	if err != nil {
		return got, err
	}
	name := filepath.Join(b, path.Base(path.Clean(a.Source)))
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return got, errors.New("it is neither a file nor a directory")
	}
	return got, os.Rename(name, host)
}

// makeBelow makes the directory at below base, or the one above it, without
// following a link that an earlier artifact brought along.
func makeBelow(base, at string, dir bool) (string, error) {
	root, err := os.OpenRoot(base)
	if err != nil {
		return "", err
	}
	defer root.Close()
	need := at
	if !dir {
		need = path.Dir(at)
	}
	if err := root.MkdirAll(need, 0o755); err != nil {
		return "", err
	}
	for _, p := range append(above(need), need) {
		if info, err := root.Lstat(p); err != nil || !info.IsDir() {
			return "", fmt.Errorf("%s is not a directory", p)
		}
	}
	return filepath.Join(base, filepath.FromSlash(at)), nil
}

// isDir asks what src is without copying it. A directory that holds a file of
// its own name looks like a file in a stream; there the sandbox is asked.
func isDir(ctx context.Context, sb sandbox.Starter, trees sandbox.Trees, src image.Path) (bool, error) {
	if l, ok := trees.(frozenTree); ok {
		return l.isDir(src)
	}
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := trees.Get(ctx, src, w, 0)
		w.CloseWithError(err)
		done <- err
	}()
	h, err := tar.NewReader(r).Next()
	r.CloseWithError(errSeen)
	getErr := <-done
	switch {
	case errors.Is(err, io.EOF):
		return true, nil // a directory of nothing
	case err != nil && getErr != nil:
		return false, getErr
	case err != nil:
		return false, err
	case h.Typeflag == tar.TypeDir || path.Clean(h.Name) != path.Base(string(src)):
		return true, nil
	case h.Typeflag != tar.TypeReg:
		return false, errors.New("it is neither a file nor a directory")
	}
	res, err := sandbox.Exec(ctx, sb, sandbox.Command{Args: []string{"/bin/sh", "-c", `[ -d "$0" ]`, string(src)}, Dir: "/", User: "0"},
		sandbox.ExecOptions{Timeout: hookTimeout})
	return err == nil && !res.TimedOut && res.Exit.Code == 0, nil
}

// containerPath makes a source absolute: Harbor's copy is relative to the root.
func containerPath(source string) image.Path { return image.Path(path.Join("/", source)) }

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func appendNote(notes []string, n string) []string {
	if n == "" {
		return notes
	}
	return append(notes, n)
}
