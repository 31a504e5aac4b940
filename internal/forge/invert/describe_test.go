package invert

import (
	"strings"
	"testing"

	"assay/internal/forge"
	"assay/internal/grade/checks"
	"assay/internal/repo"
)

// A statement shows the command as people type it, without what the grader's
// report needs.
func TestCommandAsTyped(t *testing.T) {
	for _, c := range [][2]string{
		{`. /etc/profile; PYTHONPATH=/tests${PYTHONPATH:+:$PYTHONPATH} python -B -m pytest -q -p no:cacheprovider -p assay_pytest --assay-report=/logs/verifier/pytest.log`, `python -m pytest -q`},
		{`. /etc/profile; go test -json -count=1 ./...`, `go test -count=1 ./...`},
		{`. /etc/profile; setpriv --bounding-set -dac_override,-fowner --inh-caps -dac_override go test -json -count=1 ./...`, `go test -count=1 ./...`},
		{`. /etc/profile; node_modules/.bin/jest --ci --json --outputFile=/logs/verifier/jest.json --coverage=false`, `node_modules/.bin/jest`},
		{`. /etc/profile; node_modules/.bin/mocha --reporter /tests/assay_mocha.cjs --reporter-option output=/logs/verifier/mocha.log --require test/env test/`, `node_modules/.bin/mocha --require test/env test/`},
		{`. /etc/profile; node_modules/.bin/mocha --reporter /tests/assay_mocha.cjs --reporter-options output=/logs/verifier/mocha.log --require test/env test/`, `node_modules/.bin/mocha --require test/env test/`},
		{`. /etc/profile; cargo test --no-fail-fast 2>&1`, `cargo test --no-fail-fast`},
		{`. /etc/profile; cmake --build build 2>&1 && ctest --test-dir build --output-junit /logs/verifier/ctest.xml`, `cmake --build build && ctest --test-dir build`},
		{`. /etc/profile; mvn -B -o -Drat.skip -Dcheckstyle.skip -Dmaven.javadoc.skip test`, `mvn -o test`},
	} {
		w := &forge.World{Env: &repo.Environment{Suite: repo.Suite{Commands: []repo.Command{{Command: checks.Command{Name: "unit", Run: c[0]}}}}}}
		if got := command(w, forge.Seen{}); got != c[1] {
			t.Errorf("%q becomes %q, not %q", c[0], got, c[1])
		}
	}
}

// Statements never name an operator, a place that only the grader has, or a
// count that is not so.
func TestStatement(t *testing.T) {
	w := &forge.World{Env: &repo.Environment{Name: "kites", Suite: repo.Suite{Commands: []repo.Command{{Command: checks.Command{Name: "unit", Run: ". /etc/profile; make check >/logs/verifier/out 2>&1"}}}}}}
	seen := forge.Seen{Failed: []forge.Failure{{ID: "unit:flies", Message: "AssertionError: 3 is not 4"}}, Passed: 12}
	bodies := map[string]bool{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		st := (&Generator{}).Describe(w, forge.Candidate{Name: name, Operators: []string{"session-umask"}}, seen)
		for _, want := range []string{"make check", "AssertionError: 3 is not 4", "1 test fails, 12 others still pass", "`flies`"} {
			if !strings.Contains(st.Body, want) {
				t.Errorf("%s: nothing says %q:\n%s", name, want, st.Body)
			}
		}
		for _, never := range []string{"/logs", "umask", "/tests"} {
			if strings.Contains(st.Title+st.Body, never) {
				t.Errorf("%s speaks of %s:\n%s", name, never, st.Body)
			}
		}
		bodies[st.Body] = true
	}
	seen.Failed[0] = forge.Failure{ID: "unit:flies", Status: "missing"}
	if st := (&Generator{}).Describe(w, forge.Candidate{Name: "a"}, seen); !strings.Contains(st.Body, "1 test is not run any more") {
		t.Errorf("a test that is left out is said to fail:\n%s", st.Body)
	}
	if len(bodies) < 8 {
		t.Errorf("twelve candidates have %d different statements", len(bodies))
	}
}

// The events that go test writes for programs are shown as the text in them.
func TestEventsAreShownAsText(t *testing.T) {
	seen := forge.Seen{Mute: true, Output: `{"ImportPath":"runtime/cgo","Action":"build-output","Output":"# runtime/cgo\n"}
{"ImportPath":"runtime/cgo","Action":"build-output","Output":"cgo: C compiler \"clang-11\" not found\n"}
{"ImportPath":"runtime/cgo","Action":"build-fail"}
{"Time":"2026-11-22T05:16:39Z","Action":"output","Package":"example.com/kites","Output":"FAIL\texample.com/kites [build failed]\n"}
`}
	const want = "# runtime/cgo\ncgo: C compiler \"clang-11\" not found\nFAIL\texample.com/kites [build failed]"
	if got := symptom(seen); got != want {
		t.Errorf("%q", got)
	}
	if got := title("kites", forge.Seen{Mute: true, Output: "go: cannot find GOROOT directory: /usr/local/go1.20\n"}, nil); got != "kites: go: cannot find GOROOT directory: /usr/local/go1.20" {
		t.Error(got)
	}
}

// Where most tests pass, what they print is no symptom of those that do not.
func TestPassingTestsAreNoSymptom(t *testing.T) {
	seen := forge.Seen{Failed: []forge.Failure{{ID: "unit:draws", Status: "missing"}}, Passed: 40,
		Output: "--- PASS: TestFlags (0.00s)\nusage: kites [flags]\nFAIL\texample.com/kites/doc [setup failed]\nok  \texample.com/kites\t0.2s\n"}
	if got := symptom(seen); got != "FAIL\texample.com/kites/doc [setup failed]" {
		t.Errorf("%q", got)
	}
	seen.Output = "--- PASS: TestFlags (0.00s)\n  Error: if any flags are set none of the others can be\nok  \texample.com/kites\t0.2s\n"
	if got := symptom(seen) + title("kites", seen, nil); got != "kites: 1 test does not pass on this machine" {
		t.Errorf("%q", got)
	}
}
