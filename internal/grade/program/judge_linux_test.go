package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/grade/program/drivers"
	"assay/internal/grade/report"
	"assay/internal/sandbox"
)

// sameInContainer tries the cases again by the judge in Python, in one sandbox
// with the candidate and the tests, as Harbor does: the results are the same.
func (p *place) sameInContainer(s Suite, files map[string]string, got map[string]report.Test) {
	p.t.Helper()
	g := s.Group
	if g.Call == "" || p.lines == "" {
		return
	}
	ctx := p.t.Context()
	sb, err := p.with(files)(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	defer sb.Close()
	tests := map[string]string{"judge.py": drivers.Judge(), "cases.ndjson": p.lines}
	args := []string{"python3", "-I", "-B", "/tests/judge.py", "", "/tests/cases.ndjson"}
	if s.Reference != nil {
		tests["reference"] = string(s.Reference)
		args = append(args, "/tests/reference")
	}
	group, err := json.Marshal(map[string]any{"name": g.Name, "call": g.Call, "source": g.Source, "compare": g.Compare, "abs_tol": g.AbsTol, "rel_tol": g.RelTol, "timeout_sec": g.TimeSec})
	if err != nil {
		p.t.Fatal(err)
	}
	args[4] = string(group)
	if err := put(ctx, sb, "/tests", tests); err != nil {
		p.t.Fatal(err)
	}
	res, err := sandbox.Exec(ctx, sb, sandbox.Command{Args: args, Dir: "/app", Env: p.env}, sandbox.ExecOptions{Timeout: 5 * time.Minute})
	if err != nil || res.Exit.Code != 0 {
		p.t.Fatalf("%v %+v\n%s", err, res.Exit, res.Stderr)
	}
	var want strings.Builder
	for _, c := range s.Cases {
		fmt.Fprintf(&want, "%s\t%s:%s\n", got[c.ID].Status, g.Name, c.ID)
	}
	if want.String() != string(res.Stdout) {
		p.t.Errorf("the judge in Python says\n%sand this one\n%s%s", res.Stdout, want.String(), res.Stderr)
	}
}

// Both judges compare alike: random pairs of values, in every mode.
func TestJudgesCompareAlike(t *testing.T) {
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	var in, want bytes.Buffer
	equal := 0
	for range 4000 {
		a, b := random(r, 2), random(r, 2)
		switch r.IntN(4) {
		case 0:
			b = a
		case 1: // the same items in another order, one of them perhaps another
			b = shuffled(r, a)
		}
		if r.IntN(2) == 0 {
			a, b = list(a, random(r, 1)), list(random(r, 1), b)
		}
		e := Equality{Bools: r.IntN(2) == 0, Abs: []float64{0, 0, 0.6}[r.IntN(3)], Rel: []float64{0, 0.1}[r.IntN(2)]}
		m := Modes(true)[r.IntN(len(Modes(true)))]
		fmt.Fprintf(&in, `[%q,%v,%v,%v,%s,%s]`+"\n", m, e.Abs, e.Rel, e.Bools, a.Encode(), b.Encode())
		same := differValue(m, e, a, b) == ""
		if same {
			equal++
		}
		fmt.Fprintf(&want, "%v\n", same)
	}
	dir := t.TempDir()
	main := "\ndef main(argv):\n    for line in sys.stdin:\n        m, a, r, b, x, y = parse(line)\n" +
		"        print('true' if Equality(a, r, b).compare(m, plain(x), plain(y)) else 'false')\n\n"
	code := strings.Replace(drivers.Judge(), "\nif __name__", main+"\nif __name__", 1)
	if err := os.WriteFile(filepath.Join(dir, "judge.py"), []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-I", "-B", filepath.Join(dir, "judge.py"))
	cmd.Stdin = bytes.NewReader(in.Bytes())
	var errs bytes.Buffer
	cmd.Stderr = &errs
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.Bytes())
	}
	if equal < 400 {
		t.Errorf("only %d of the pairs were equal", equal)
	}
	lines := strings.Split(in.String(), "\n")
	g := strings.Split(string(got), "\n")
	bad := 0
	for i, w := range strings.Split(want.String(), "\n") {
		if (i >= len(g) || g[i] != w) && bad < 10 {
			bad++
			t.Errorf("%s: here %s", lines[i], w)
		}
	}
}

// shuffled is v with its items in another order.
func shuffled(r *rand.Rand, v Value) Value {
	if v.Kind != List && v.Kind != Tuple && v.Kind != Set {
		return v
	}
	out := v
	out.Items = make([]Value, len(v.Items))
	for i, j := range r.Perm(len(v.Items)) {
		out.Items[i] = shuffled(r, v.Items[j])
	}
	return out
}

func TestJudgesOrderAlike(t *testing.T) {
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	var want, in strings.Builder
	for _, q := range queries() {
		fmt.Fprintf(&in, "%q\n", q)
		fmt.Fprintf(&want, "%v\n", Orders(q))
	}
	code := strings.Replace(drivers.Judge(), "\nif __name__", "\ndef main(argv):\n    for line in sys.stdin:\n        print('true' if orders(json.loads(line)) else 'false')\n\nif __name__", 1)
	file := filepath.Join(t.TempDir(), "judge.py")
	if err := os.WriteFile(file, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-I", "-B", file)
	cmd.Stdin = strings.NewReader(in.String())
	got, err := cmd.CombinedOutput()
	if err != nil || string(got) != want.String() {
		t.Errorf("%v: got\n%swant\n%s%s", err, got, want.String(), in.String())
	}
}
