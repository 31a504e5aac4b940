package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// On a terminal a build leaves one line a step, whatever its commands write,
// and no line is longer than a row.
func TestBuildProgress(t *testing.T) {
	needSandbox(t)
	dir := scratch(t)
	const file = `FROM host
RUN sleep 1; printf 'first\033[2J\033]0;title\007 line\n'; sleep 1; for i in $(seq 50); do echo "a long line $i that does not fit into a row of the terminal"; done
RUN sleep 1; echo "done $(seq -s ' ' 100)"
LABEL a=b
RUN echo before; exit 3
`
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := Main([]string{"assay", "--store", filepath.Join(dir, "store"), "image", "build", dir},
		World{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: os.LookupEnv, Terminal: true, Columns: 60})
	if code != exitFailed {
		t.Fatalf("exit %d\n%s", code, &errs)
	}
	if s := errs.String(); strings.Contains(s, "\x1b[2J") || strings.Contains(s, "\x07") || !strings.Contains(s, "\x1b[J") || !strings.Contains(s, "    first[2J]0;title line") {
		t.Errorf("steered by a command, or not redrawn: %q", s)
	}
	// What is left when everything that was redrawn is gone.
	shown := []string{}
	erase := regexp.MustCompile("^\x1b\\[([0-9]+)A\r\x1b\\[J")
	for l := range strings.Lines(errs.String()) {
		for m := erase.FindString(l); m != ""; m = erase.FindString(l) {
			n := 0
			for _, c := range m[2:strings.IndexByte(m, 'A')] {
				n = n*10 + int(c-'0')
			}
			shown, l = shown[:len(shown)-n], l[len(m):]
		}
		if l = strings.TrimSuffix(l, "\n"); utf8.RuneCountInString(l) > 59 && strings.HasPrefix(l, "[") {
			t.Errorf("too long: %q", l)
		}
		shown = append(shown, l)
	}
	text := strings.Join(shown, "\n")
	for _, want := range []string{`(?m)^\[stage-0 1/4\] RUN sleep .*…  \d+\.\ds$`, `(?m)^\[stage-0 2/4\] RUN sleep.*s$`, `(?m)^\[stage-0 3/4\] LABEL a=b  0\.0s$`,
		`(?m)^\[stage-0 4/4\] RUN echo before; exit 3  failed after \d+\.\ds$`, `(?m)^assay: .*Dockerfile:5: RUN: exit status 3`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n[stage-0"); n != 3 {
		t.Errorf("%d steps after the first are left in\n%s", n, text)
	}
}
