package setup

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// tried is what one run of a suite came to.
type tried struct {
	passed, failed, skipped int
	void                    string // why a report cannot be trusted
	build                   bool   // something did not load, so that tests are absent
	hung                    string // the command that was ended at its limit
	output                  string // of all commands, and messages of failures
	took                    time.Duration
	memory                  int64 // bytes, of the largest process
}

// good says that nothing is left to mend.
func (t tried) good() bool {
	return t.passed > 0 && t.failed == 0 && t.void == "" && !t.build && t.hung == ""
}

// fair says that the suite is worth having as it is: what failed may be the
// machine's fault or the project's own.
func (t tried) fair() bool {
	return t.passed > 0 && t.void == "" && t.hung == "" && t.failed*10 <= t.passed && (!t.build || t.failed*20 <= t.passed)
}

func (t tried) String() string {
	s := fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
	if t.hung != "" {
		s += "; " + t.hung
	}
	if t.void != "" {
		s += "; " + t.void
	}
	return s
}

// maxOutput is what is kept of what a command prints.
const maxOutput = 8 << 20

// probe runs the suite once, without network, in a fresh sandbox.
func probe(ctx context.Context, o Config, im image.Image, suite []repo.Command) (tried, error) {
	box, err := o.Backend.Create(ctx, sandbox.Spec{Image: im, UID: o.UID, Network: sandbox.NetNone, Limits: o.Limits})
	if err != nil {
		return tried{}, err
	}
	defer box.Close()
	if err := putSupport(ctx, box, suite); err != nil {
		return tried{}, err
	}
	var t tried
	for _, c := range suite {
		if err := t.command(ctx, box, c); err != nil {
			return t, err
		}
	}
	if !t.good() {
		// What keeps a service from starting shows in the tests as a refused
		// connection only.
		if b, err := fetchFile(ctx, box, servicesLog); err == nil && len(bytes.TrimSpace(b)) > 0 {
			t.output += "what services = [] say:\n" + string(b[max(0, len(b)-maxServicesLog):]) + "\n"
		}
	}
	return t, nil
}

// maxServicesLog is what is shown of what services print.
const maxServicesLog = 4 << 10

// putSupport lays what runners need where a grader would have it.
func putSupport(ctx context.Context, box sandbox.Sandbox, suite []repo.Command) error {
	s := repo.Suite{Commands: suite}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "logs/verifier/", Typeflag: tar.TypeDir, Mode: 0o777})
	for name, data := range s.SupportFiles() {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: "tests/" + name, Mode: 0o644, Size: int64(len(data))}))
		_, werr := w.Write(data)
		err = errors.Join(err, werr)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return box.Put(ctx, "/", &b)
}

func (t *tried) command(ctx context.Context, box sandbox.Sandbox, c repo.Command) error {
	dir := workdir
	if c.Dir != "" {
		dir = path.Join(workdir, c.Dir)
	}
	res, err := sandbox.Exec(ctx, box, sandbox.Command{Args: []string{"/bin/sh", "-c", c.Run}, Dir: image.Path(dir)},
		sandbox.ExecOptions{Timeout: c.Timeout(), Cap: maxOutput})
	if err != nil {
		return err
	}
	if res.Cancelled {
		return context.Cause(ctx)
	}
	t.took += res.Wall
	t.memory = max(t.memory, res.Exit.MaxRSS)
	t.output += string(res.Stdout) + "\n" + string(res.Stderr) + "\n"
	if res.TimedOut {
		t.hung = fmt.Sprintf("%s did not end in %s%s", c.Name, c.Timeout(), lastStarted(ctx, box, c, dir))
		return nil
	}
	if c.Report == "" {
		if res.Exit.Code == 0 {
			t.passed++
		} else {
			t.failed++
			t.output += fmt.Sprintf("%s: exit status %d\n", c.Name, res.Exit.Code)
		}
		return nil
	}
	sources, err := collect(ctx, box, c, dir, res)
	if err != nil {
		return err
	}
	r, err := report.Read(c.Report, sources, res.Exit.Code)
	if err != nil {
		t.void = fmt.Sprintf("%s left no report that can be read (exit status %d): %v", c.Name, res.Exit.Code, err)
		return nil
	}
	t.read(r)
	return nil
}

func (t *tried) read(r *report.Report) {
	for _, f := range r.Flags {
		switch f.Kind {
		case report.FlagDuplicate, report.FlagNamesake, report.FlagPrinted:
		case report.FlagBuild:
			t.build = true
		default:
			t.void = fmt.Sprintf("its report cannot be trusted (%s: %s)", f.Kind, f.Detail)
		}
	}
	for _, x := range r.Tests {
		switch x.Status {
		case report.Passed:
			t.passed++
		case report.Skipped, report.XFailed:
			t.skipped++
		default:
			t.failed++
			if len(t.output) < 2*maxOutput {
				t.output += x.ID + ": " + x.Message + "\n"
			}
		}
	}
}

// collect fetches a command's report.
func collect(ctx context.Context, box sandbox.Sandbox, c repo.Command, dir string, res sandbox.ExecResult) ([]report.Source, error) {
	if len(c.Files) == 0 {
		return []report.Source{{Name: "stdout", Data: res.Stdout, Cut: res.Dropped > 0}}, nil
	}
	var out []report.Source
	total := 0
	for _, pattern := range c.Files {
		files, err := list(ctx, box, pattern, dir)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			b, err := fetchFile(ctx, box, f)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if total += len(b); total > report.MaxBytes || len(out) >= report.MaxSources {
				return out, nil
			}
			out = append(out, report.Source{Name: f, Data: b})
		}
	}
	return out, nil
}

// list names the files of a pattern. The sandbox's own find looks; what it says
// is only names to ask for.
func list(ctx context.Context, box sandbox.Sandbox, pattern, dir string) ([]string, error) {
	if !strings.ContainsAny(pattern, "*?[") {
		if !path.IsAbs(pattern) {
			pattern = path.Join(dir, pattern)
		}
		return []string{pattern}, nil
	}
	if !path.IsAbs(pattern) {
		pattern = path.Join(dir, pattern)
	}
	top := pattern[:strings.IndexAny(pattern, "*?[")]
	top = top[:strings.LastIndexByte(top, '/')+1]
	res, err := sandbox.Exec(ctx, box, sandbox.Command{Args: []string{"find", top, "-type", "f", "-size", "-65536k"}}, sandbox.ExecOptions{Timeout: time.Minute, Cap: 16 << 20})
	if err != nil {
		return nil, err
	}
	x := regexp.QuoteMeta(pattern)
	x = strings.NewReplacer(`\*\*/`, `(.*/)?`, `\*`, `[^/]*`, `\?`, `[^/]`).Replace(x)
	re, err := regexp.Compile("^" + x + "$")
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	var out []string
	for l := range strings.Lines(string(res.Stdout)) {
		if l = strings.TrimSuffix(l, "\n"); re.MatchString(l) {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), report.MaxSources)], nil
}

func fetchFile(ctx context.Context, box sandbox.Sandbox, name string) ([]byte, error) {
	var b bytes.Buffer
	if err := box.Get(ctx, image.Path(name), &b, report.MaxBytes); err != nil {
		return nil, err
	}
	r := tar.NewReader(&b)
	h, err := r.Next()
	if err != nil || h.Typeflag != tar.TypeReg {
		return nil, fs.ErrNotExist
	}
	return io.ReadAll(io.LimitReader(r, report.MaxBytes))
}

// lastStarted names, of a log that says when tests begin, the one in which a
// run hung.
func lastStarted(ctx context.Context, box sandbox.Sandbox, c repo.Command, dir string) string {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, f := range c.Files {
		if strings.ContainsAny(f, "*?[") {
			continue
		}
		if !path.IsAbs(f) {
			f = path.Join(dir, f)
		}
		b, err := fetchFile(ctx, box, f)
		if err != nil {
			continue
		}
		if m := regexp.MustCompile(`\{"start": ?"((?:[^"\\]|\\.){1,300})"`).FindAllSubmatch(b, -1); len(m) > 0 {
			return fmt.Sprintf(", in %s", m[len(m)-1][1])
		}
	}
	return ""
}
