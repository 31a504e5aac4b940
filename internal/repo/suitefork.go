package repo

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// trial is how one run differs from others.
type trial struct {
	seed    uint64
	shuffle bool
	touch   bool   // as if every source had changed, and with the build
	line    string // instead of the command's Run
	user    string
	env     []string
	network bool
	limit   time.Duration // 0: the configuration's
}

// result is one run of one command.
type result struct {
	report   *report.Report // nil: there is none
	bad      string         // why there is none
	exit     int
	wall     time.Duration
	timedOut bool
	memory   bool
	running  string // a test that had begun and not ended, when the run was cut off
	ended    []report.Test
	tail     string // the end of what was printed
}

// fatal reports whether nothing can be said of any test.
func (r result) fatal() bool { return r.report == nil || r.report.Void() != "" }

func (r result) passed() map[string]bool {
	out := map[string]bool{}
	if r.report != nil {
		for _, t := range r.report.Tests {
			if t.Status == report.Passed {
				out[t.ID] = true
			}
		}
	}
	return out
}

// lost are the tests that passed before and not here.
func (r result) lost(before result) []string {
	here := r.passed()
	var out []string
	for id := range before.passed() {
		if !here[id] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func (r result) summary() string {
	switch {
	case r.timedOut:
		return fmt.Sprintf("ended at its limit after %v", r.wall.Round(time.Second))
	case r.report == nil:
		return r.bad
	}
	return fmt.Sprintf("%d of %d tests passed in %v", len(r.passed()), len(r.report.Tests), r.wall.Round(10*time.Millisecond))
}

// fork is a sandbox of the healthy image with the grader's directories in it.
func (r *suiteRun) fork(ctx context.Context, t trial, more map[string][]byte) (sandbox.Sandbox, error) {
	spec := sandbox.Spec{Image: r.c.Image, UID: r.c.UID, Limits: r.c.Limits, Network: sandbox.NetNone}
	if t.network {
		spec.Network, spec.Egress = sandbox.NetFull, r.c.Egress
	}
	sb, err := r.c.Backend.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, b := range r.suite.SupportFiles() {
		files[path.Join(testsDir, name)[1:]] = b
	}
	maps.Copy(files, more)
	err = sandbox.PutAll(ctx, sb, "/", func(w *tar.Writer) error {
		for _, d := range []string{"tests/", "logs/", "logs/verifier/"} {
			mode := int64(0o755)
			if d == "logs/verifier/" {
				mode = 0o777 // of whichever user the tests run as
			}
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: mode}); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
				return err
			}
			if _, err := w.Write(files[name]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		sb.Close()
		return nil, err
	}
	return sb, nil
}

// run runs a command once, in a fork of its own.
func (r *suiteRun) run(ctx context.Context, c Command, t trial) (result, error) {
	env := append(slices.Clone(r.c.Env), t.env...)
	files := map[string][]byte{}
	hash := []string{"PYTHONHASHSEED=" + strconv.FormatUint(t.seed%(1<<32-1)+1, 10)}
	if t.shuffle {
		all := slices.Concat(r.c.Image.Config.Env, env)
		order, support, _ := report.Order(c.Report, t.seed, func(name string) string {
			for _, kv := range slices.Backward(all) {
				if v, ok := strings.CutPrefix(kv, name+"="); ok {
					return v
				}
			}
			return ""
		})
		hash = order
		for name, b := range support {
			files[path.Join(report.OrderDir, name)[1:]] = b
		}
	}
	env = append(env, hash...)
	sb, err := r.fork(ctx, t, files)
	if err != nil {
		return result{}, err
	}
	defer sb.Close()
	if err := r.clear(ctx, sb, c); err != nil {
		return result{}, err
	}
	if t.touch {
		if _, err := r.shell(ctx, sb, touch, "", nil, time.Minute); err != nil {
			return result{}, err
		}
	}
	return r.inside(ctx, sb, c, t, env)
}

// touch makes every source look changed: by its time for those that go by
// time, and by an empty line at its end for Go, which goes by content.
const touch = `find . -name .git -prune -o -name node_modules -prune -o -name target -prune -o -type f \( -name '*.go' -o -name '*.rs' -o -name '*.c' -o -name '*.cc' -o -name '*.cpp' -o -name '*.cxx' -o -name '*.h' -o -name '*.hpp' -o -name '*.java' -o -name '*.py' -o -name '*.js' -o -name '*.ts' \) -print | while IFS= read -r f; do case $f in *.go) echo >>"$f";; *) touch "$f";; esac; done 2>/dev/null; true`

// shell runs a line of ours in the working directory, as root.
func (r *suiteRun) shell(ctx context.Context, sb sandbox.Sandbox, line, dir string, env []string, limit time.Duration) (sandbox.ExecResult, error) {
	cmd := sandbox.Command{Args: []string{"/bin/sh", "-c", line}, Dir: image.Path(path.Join(r.c.Workdir, dir)), Env: env, User: "0"}
	res, err := sandbox.Exec(ctx, sb, cmd, sandbox.ExecOptions{Timeout: limit, Cap: 16 << 20})
	if err == nil && res.Cancelled {
		err = context.Cause(ctx)
	}
	return res, err
}

// clear removes reports that the image has of earlier runs.
func (r *suiteRun) clear(ctx context.Context, sb sandbox.Sandbox, c Command) error {
	for _, pattern := range c.Files {
		if line, ok := r.findLine(c, pattern); ok {
			if _, err := r.shell(ctx, sb, line+" -exec rm -f {} +", "", nil, time.Minute); err != nil {
				return err
			}
		}
	}
	return nil
}

// findLine is find's command line for a pattern; it takes a little more than
// the pattern, whose reader decides.
func (r *suiteRun) findLine(c Command, pattern string) (string, bool) {
	full := pattern
	if !path.IsAbs(full) {
		full = path.Join(r.c.Workdir, pattern)
	}
	i := strings.IndexAny(full, "*?[")
	if i < 0 {
		return "find " + Quote(full) + " -maxdepth 0 -type f", true
	}
	root := path.Dir(full[:i] + "x")
	return "find " + Quote(root) + " -type f -path " + Quote(strings.ReplaceAll(strings.ReplaceAll(full, "**/", "*"), "**", "*")), true
}

// inside runs the command in a sandbox that is ready and reads what it left.
func (r *suiteRun) inside(ctx context.Context, sb sandbox.Sandbox, c Command, t trial, env []string) (result, error) {
	dir := path.Join(r.c.Workdir, c.Dir)
	if path.IsAbs(c.Dir) {
		dir = path.Clean(c.Dir)
	}
	line := c.Run
	if t.line != "" {
		line = t.line
	}
	if t.touch && c.Build != "" {
		line = c.Build + " >/dev/null 2>&1; " + line
	}
	cmd := sandbox.Command{Args: c.Args, Dir: image.Path(dir), Env: env, User: r.c.User}
	if line != "" {
		cmd.Args = []string{"/bin/sh", "-c", line}
	}
	if c.User != "" {
		cmd.User = c.User
	}
	if t.user != "" {
		cmd.User = t.user
	}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		cmd.Env = append(cmd.Env, k+"="+c.Env[k])
	}
	limit := r.c.Limit
	if t.limit > 0 {
		limit = t.limit
	}
	res, err := sandbox.Exec(ctx, sb, cmd, sandbox.ExecOptions{Timeout: limit, Cap: report.MaxBytes})
	switch {
	case errors.Is(err, sandbox.ErrNotStarted):
		return result{bad: err.Error(), exit: 127}, nil
	case err == nil && res.Cancelled:
		return result{}, context.Cause(ctx)
	case err != nil && !res.TimedOut:
		return result{}, err
	}
	out := result{exit: res.Exit.Code, wall: res.Wall, timedOut: res.TimedOut, memory: res.Exit.OutOfMemory, tail: tailOf(res)}
	if err := sb.Kill(ctx); err != nil {
		return result{}, err
	}
	err = r.read(ctx, sb, c, dir, res, &out)
	return out, err
}

// read makes a result's report of what the command left.
func (r *suiteRun) read(ctx context.Context, sb sandbox.Sandbox, c Command, dir string, res sandbox.ExecResult, out *result) error {
	if c.Report == "" {
		s := report.Failed
		if res.Exit.Code == 0 && !res.TimedOut {
			s = report.Passed
		}
		out.report = &report.Report{Tests: []report.Test{{ID: c.Name, Status: s, Took: res.Wall}}}
		return nil
	}
	rd, err := report.ReaderOf(c.Report)
	if err != nil {
		return err
	}
	var sources []report.Source
	if rd.Stream && len(c.Files) == 0 {
		sources = []report.Source{{Name: "stdout", Data: res.Stdout, Cut: res.Dropped > 0, Root: dir}}
	} else if sources, err = r.gather(ctx, sb, c, dir); err != nil {
		return err
	}
	if out.timedOut {
		out.ended, out.running = unfinished(c.Report, sources)
		out.bad = "ended at its limit"
		return nil
	}
	if len(sources) == 0 {
		out.bad = fmt.Sprintf("exit status %d and no report at %s", out.exit, strings.Join(c.Files, ", "))
		return nil
	}
	out.report, err = report.Read(c.Report, sources, res.Exit.Code)
	if err != nil {
		out.report, out.bad = nil, fmt.Sprintf("exit status %d, and %v", out.exit, err)
	}
	return nil
}

// gather reads a command's report files.
func (r *suiteRun) gather(ctx context.Context, sb sandbox.Sandbox, c Command, dir string) ([]report.Source, error) {
	names := map[string]bool{}
	for _, pattern := range c.Files {
		line, ok := r.findLine(c, pattern)
		if !ok {
			continue
		}
		res, err := r.shell(ctx, sb, line+" -print0 2>/dev/null", "", nil, time.Minute)
		if err != nil {
			return nil, err
		}
		for name := range strings.SplitSeq(string(res.Stdout), "\x00") {
			if name != "" && checks.Matches(pattern, r.c.Workdir, name) {
				names[name] = true
			}
		}
	}
	var sources []report.Source
	size := int64(0)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b, err := getFile(ctx, sb, name, report.MaxBytes-size)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		cut := errors.Is(err, sandbox.ErrTooLarge)
		if err != nil && !cut {
			return nil, err
		}
		size += int64(len(b))
		sources = append(sources, report.Source{Name: strings.TrimPrefix(name, "/"), Data: b, Cut: cut, Root: dir})
		if len(sources) == report.MaxSources {
			break
		}
	}
	return sources, nil
}

// getFile reads one plain file of a sandbox.
func getFile(ctx context.Context, sb sandbox.Trees, name string, limit int64) ([]byte, error) {
	var b bytes.Buffer
	if err := sb.Get(ctx, image.Path(name), &b, limit+64<<10); err != nil {
		return nil, err
	}
	tr := tar.NewReader(&b)
	h, err := tr.Next()
	if err != nil || h.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("%s is no plain file: %w", name, fs.ErrNotExist)
	}
	return io.ReadAll(tr)
}

// tailOf is the end of what a command printed, for people.
func tailOf(res sandbox.ExecResult) string {
	const keep = 4 << 10
	last := func(b []byte) string { return strings.ToValidUTF8(string(b[max(0, len(b)-keep):]), "?") }
	return strings.TrimSpace(last(res.Stdout) + "\n" + last(res.Stderr))
}
