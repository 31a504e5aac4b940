package report

import (
	"fmt"
	"maps"
	"slices"
)

// pytestLog reads what assay's plugin for pytest records: exact node ids,
// passes that were not expected, and a start and an end for each test, none of
// which is in pytest's JUnit XML.
func pytestLog() Reader {
	return Reader{
		Format: "pytest-log",
		Read:   readEach("pytest-log", readTestLog),
		Agrees: agreesPytest,
		Means:  "pytest 7, 8, 9 with assay_pytest.py: pytest -p assay_pytest --assay-report=FILE",
	}
}

func unittestLog() Reader {
	return Reader{
		Format: "unittest",
		Read:   readEach("unittest", readTestLog),
		Agrees: agreesUnittest,
		Means:  "unittest of Python 3.8, 3.11, 3.12, 3.13: python assay_unittest.py --assay-report=FILE discover",
	}
}

func djangoLog() Reader {
	return Reader{
		Format: "django",
		Read:   readEach("django", readTestLog),
		Agrees: agreesUnittest,
		Means:  "Django 4.2, 5.2: python assay_unittest.py --assay-report=FILE --script manage.py test",
	}
}

// agreesUnittest: 0 if everything passed, 1 if not (a success that was not
// expected is none), 5 where no test ran (Python 3.12 and later).
func agreesUnittest(r *Report, exit int) (string, bool) {
	bad := r.count(Failed, Errored, XPassed, Unknown)
	switch {
	case exit == 2 && r.flagged(FlagBuild): // what loads the tests gave up
		return "", true
	case exit == 0 && bad == 0, exit == 1 && bad > 0, exit == 5 && bad == 0 && r.count(Passed, XFailed) == 0:
		return "", true
	}
	return fmt.Sprintf("it ended with status %d, and %d of %d tests failed", exit, bad, len(r.Tests)), false
}

func sorted(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }
