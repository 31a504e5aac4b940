package grade

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// Caps of assertions on the state.
const (
	maxAsserted  = 8 << 20 // bytes of a file or an output that are looked at
	maxProcesses = 1 << 20 // bytes of a list of processes
)

// alive asserts of processes, while those that the commands left still run.
func (r Request) alive(ctx context.Context, sb sandbox.Starter, p *checks.Plan, got map[string]checks.StateSeen) error {
	var list []string
	for _, s := range p.State {
		if s.NoProcess == "" {
			continue
		}
		if list == nil {
			var err error
			list, err = processes(ctx, sb)
			if errors.Is(err, sandbox.ErrNotStarted) { // whoever takes the shell away hides what runs
				got[s.Name] = checks.StateSeen{Name: s.Name, Why: "processes cannot be listed: " + err.Error()}
				continue
			}
			if err != nil {
				return fmt.Errorf("list processes: %w", err)
			}
		}
		got[s.Name] = noProcess(s, list)
	}
	return nil
}

// processes lists names and command lines of what runs in the sandbox, as the
// sandbox's own root sees it.
func processes(ctx context.Context, sb sandbox.Starter) ([]string, error) {
	res, err := sandbox.Exec(ctx, sb, sandbox.Command{
		Args: []string{"/bin/sh", "-c", `for p in /proc/[0-9]*; do
[ "${p#/proc/}" = $$ ] && continue
cat "$p/comm"; tr '\0\n' '  ' <"$p/cmdline"; echo
done 2>/dev/null; exit 0`}, Dir: "/", User: "0",
	}, sandbox.ExecOptions{Timeout: hookTimeout, Cap: maxProcesses})
	if err != nil {
		return nil, err
	}
	if res.Cancelled {
		return nil, context.Cause(ctx)
	}
	return strings.Split(string(res.Stdout), "\n"), nil
}

func noProcess(s checks.State, list []string) checks.StateSeen {
	re, err := regexp.Compile(s.NoProcess)
	if err != nil {
		return checks.StateSeen{Name: s.Name, Why: err.Error()}
	}
	for _, l := range list {
		if l = strings.TrimSpace(l); l != "" && re.MatchString(l) {
			return checks.StateSeen{Name: s.Name, Why: "it runs: " + clip(l)}
		}
	}
	return checks.StateSeen{Name: s.Name, Held: true}
}

// paths asserts of paths. Nothing runs in the sandbox.
func (r Request) paths(ctx context.Context, sb sandbox.Trees, p *checks.Plan, dir string, got map[string]checks.StateSeen) error {
	for _, s := range p.State {
		if s.Path == "" {
			continue
		}
		saw, h, content, err := statOf(ctx, sb, inBox(dir, s.Path), maxAsserted)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, sandbox.ErrTooLarge) {
			return fmt.Errorf("look at %s: %w", s.Path, err)
		}
		why := pathIs(s, saw, h, content, err)
		got[s.Name] = checks.StateSeen{Name: s.Name, Held: why == "", Why: why}
	}
	return nil
}

// pathIs says what of a path is not as asserted; empty: all is.
func pathIs(s checks.State, saw seen, h *tar.Header, content []byte, err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if s.Absent {
			return ""
		}
		return "there is nothing"
	case err != nil:
		return err.Error()
	case s.Absent:
		return "it is there"
	}
	kind := map[image.Type]string{image.TypeFile: "file", image.TypeDir: "dir", image.TypeSymlink: "link"}[saw.kind]
	if s.Type != "" && s.Type != kind {
		return fmt.Sprintf("it is %s, not a %s", orWord(kind, "none of file, dir and link"), s.Type)
	}
	if s.Mode != "" {
		if want, err := strconv.ParseUint(s.Mode, 8, 32); err != nil || uint32(want) != saw.mode {
			return fmt.Sprintf("its mode is %04o", saw.mode)
		}
	}
	if s.UID != nil && *s.UID != h.Uid {
		return fmt.Sprintf("its owner is %d", h.Uid)
	}
	if s.GID != nil && *s.GID != h.Gid {
		return fmt.Sprintf("its group is %d", h.Gid)
	}
	if s.Target != "" && (saw.kind != image.TypeSymlink || saw.link != s.Target) {
		return "it leads to " + orWord(clip(saw.link), "nothing: it is no link")
	}
	if s.SHA256 != "" && !strings.EqualFold(saw.digest, "sha256:"+s.SHA256) {
		return "its content has another digest"
	}
	if s.Equals == nil && s.Contains == "" && s.Matches == "" {
		return ""
	}
	if saw.kind != image.TypeFile {
		return "it is no file"
	}
	if h.Size > maxAsserted {
		return fmt.Sprintf("it is larger than %d bytes", maxAsserted)
	}
	return textIs(s, string(content))
}

// textIs says what of a text is not as asserted.
func textIs(s checks.State, text string) string {
	switch {
	case s.Equals != nil && text != *s.Equals:
		return "it is " + strconv.Quote(clip(text))
	case s.Contains != "" && !strings.Contains(text, s.Contains):
		return "it does not contain the text"
	case s.Matches != "":
		if re, err := regexp.Compile(s.Matches); err != nil || !re.MatchString(text) {
			return "it does not match"
		}
	}
	return ""
}

func orWord(s, none string) string {
	if s == "" {
		return none
	}
	return s
}

// outputs asserts of commands, which run after the tests where those ran.
func (r Request) outputs(ctx context.Context, sb sandbox.Starter, p *checks.Plan, left time.Duration, got map[string]checks.StateSeen) error {
	end := time.Now().Add(max(left, time.Second))
	for _, s := range p.State {
		if s.Run == "" {
			continue
		}
		limit := time.Until(end)
		if own := time.Duration(s.TimeoutSec * float64(time.Second)); own > 0 && own < limit {
			limit = own
		}
		why := "the verifier's time was used up before"
		if limit > 0 {
			var err error
			if why, err = r.output(ctx, sb, s, limit); err != nil {
				return fmt.Errorf("run the assertion %q: %w", s.Name, err)
			}
		}
		got[s.Name] = checks.StateSeen{Name: s.Name, Held: why == "", Why: why}
	}
	return nil
}

// output runs one assertion. Its output is what is asserted of, as it is but
// for line breaks at its end.
func (r Request) output(ctx context.Context, sb sandbox.Starter, s checks.State, limit time.Duration) (why string, err error) {
	res, err := sandbox.Exec(ctx, sb, sandbox.Command{
		Args: []string{"/bin/sh", "-c", s.Run}, Env: r.Env, Dir: r.Workdir, User: r.Key.User,
	}, sandbox.ExecOptions{Timeout: limit, Cap: maxAsserted})
	want := 0
	if s.Exit != nil {
		want = *s.Exit
	}
	switch {
	case errors.Is(err, sandbox.ErrNotStarted):
		return "it does not start: " + err.Error(), nil
	case err != nil:
		return "", err
	case res.Cancelled:
		return "", context.Cause(ctx)
	case res.TimedOut:
		return fmt.Sprintf("it did not end within %v", limit), nil
	case res.Exit.Code != want:
		return fmt.Sprintf("it ended with %d: %s", res.Exit.Code, clip(strings.TrimSpace(string(res.Stderr)))), nil
	}
	text := strings.TrimRight(string(res.Stdout), "\n")
	if s.Equals != nil {
		trimmed := strings.TrimRight(*s.Equals, "\n")
		s.Equals = &trimmed
	}
	return textIs(s, text), nil
}
