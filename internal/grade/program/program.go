package program

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// room is what a candidate may print beyond twice of what is wanted.
const room = 1 << 20

// program tries a case of input and output.
func (c *court) program(ctx context.Context, one *Case) (report.Test, error) {
	s := c.stand
	if len(one.Files) > 0 {
		if err := put(ctx, s.sb, s.dir(), one.Files); err != nil {
			if lost(ctx, err) {
				return report.Test{}, err
			}
			// The candidate's tree may have a directory or a link where a file should be.
			return result(one, report.Errored, report.KindException, "the input files cannot be put: "+err.Error()), nil
		}
	}
	cmd := s.command(slices.Concat(c.r.Suite.Group.Run, one.Args), one.Env...)
	keep := int64(room)
	for _, w := range []*string{one.Want.Stdout, one.Want.Stderr} {
		if w != nil {
			keep = max(keep, room+2*int64(len(*w)))
		}
	}
	res, err := sandbox.Exec(ctx, s.sb, cmd, sandbox.ExecOptions{Stdin: strings.NewReader(one.Stdin), Timeout: one.Timeout, Cap: keep})
	if errors.Is(err, sandbox.ErrNotStarted) {
		return report.Test{}, &notStarted{err}
	}
	switch {
	case unended(res, err):
		c.gone = true // it forks without end: the sandbox ends it
	case err != nil:
		return report.Test{}, err
	}
	if t, ended := crashed(one, res); ended {
		return t, nil
	}
	if res.Dropped > 0 {
		return result(one, report.Failed, report.KindAssertion, fmt.Sprintf("it printed more than %d bytes", keep)), nil
	}
	if why := one.streams(res); why != "" {
		return answer(one, why), nil
	}
	if len(one.Want.Files) == 0 {
		return answer(one, ""), nil
	}
	if err := s.sb.Kill(ctx); err != nil { // nothing writes while files are read
		return report.Test{}, err
	}
	why, err := c.files(ctx, one)
	return answer(one, why), err
}

// unended reports whether a program was not seen to end after its time was up.
func unended(res sandbox.ExecResult, err error) bool {
	return res.TimedOut && errors.Is(err, context.DeadlineExceeded)
}

// crashed says what became of a program that did not end as it should.
func crashed(one *Case, res sandbox.ExecResult) (report.Test, bool) {
	said := strings.TrimSpace(shorten(string(res.Stderr), keptOutput))
	switch {
	case res.TimedOut:
		return result(one, report.Errored, report.KindTimeout, fmt.Sprintf("it did not end within %v", one.Timeout)), true
	case res.Exit.OutOfMemory && (one.Want.Exit == nil || res.Exit.Code != *one.Want.Exit):
		return result(one, report.Errored, report.KindException, "ended for its memory limit: "+said), true
	case one.Want.Exit != nil && res.Exit.Code != *one.Want.Exit:
		return result(one, report.Errored, report.KindException, fmt.Sprintf("want exit status %d, got %d: %s", *one.Want.Exit, res.Exit.Code, said)), true
	}
	return report.Test{}, false
}

func (one *Case) streams(res sandbox.ExecResult) string {
	for _, s := range []struct {
		name string
		want *string
		got  []byte
	}{{"stdout", one.Want.Stdout, res.Stdout}, {"stderr", one.Want.Stderr, res.Stderr}} {
		if s.want == nil {
			continue
		}
		if why := differText(one.Mode, one.Equal, *s.want, string(s.got)); why != "" {
			return s.name + ": " + why
		}
	}
	return ""
}

// lost reports whether an error is the sandbox's end or the caller's, and not
// what the candidate's tree is like.
func lost(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || sandbox.Ended(err))
}

// files compares the files that the program should have left.
func (c *court) files(ctx context.Context, one *Case) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(one.Want.Files)) {
		want := one.Want.Files[name]
		got, err := fetch(ctx, c.stand.sb, image.Path(path.Join(string(c.stand.dir()), name)), room+2*int64(len(want)))
		if lost(ctx, err) {
			return "", err
		}
		if err != nil { // a link, a loop of links, a directory nobody may enter: it is no such file
			return fmt.Sprintf("%s: %v", name, err), nil
		}
		if why := differText(one.Mode, one.Equal, want, string(got)); why != "" {
			return name + ": " + why, nil
		}
	}
	return "", nil
}
