package report

import "testing"

// A test that is named on the command line, and whose file cannot be
// collected, makes pytest end with its status for wrong usage: recorded from
// pytest 7.2.1, run with tests/test_a.py::test_a tests/test_b.py::test_b. That
// is a failure like any other, as long as nothing ran.
func TestPytestNamedTestsCannotBeCollected(t *testing.T) {
	const head = `{"log": "assay-tests", "v": 1, "runner": "pytest", "version": "7.2.1", "language": "python 3.11.2"}` + "\n"
	const broken = `{"result": "tests/test_a.py", "status": "error", "kind": "build", "message": "ModuleNotFoundError: No module named 'nothere'", "took": 0}` + "\n"
	const end = `{"done": {"passed": 0, "xpassed": 0, "xfailed": 0, "skipped": 0, "failed": 0, "error": 1}}` + "\n"
	const ran = `{"plan": 1}` + "\n" + `{"start": "tests/test_b.py::test_b"}` + "\n" + `{"end": "tests/test_b.py::test_b", "status": "passed", "took": 0.1}` + "\n"
	const endRan = `{"done": {"passed": 1, "xpassed": 0, "xfailed": 0, "skipped": 0, "failed": 0, "error": 1}}` + "\n"
	for _, c := range []struct {
		log  string
		exit int
		void bool
	}{
		{head + broken + end, 4, false},
		{head + broken + end, 0, true},
		{head + broken + end, 5, true},
		{head + broken + ran + endRan, 4, true},
	} {
		r, err := Read("pytest-log", []Source{{Name: "report", Data: []byte(c.log)}}, c.exit)
		if err != nil {
			t.Fatal(err)
		}
		if void := r.Void(); (void != "") != c.void {
			t.Errorf("status %d: void is %q\n%s", c.exit, void, c.log)
		}
	}
}
