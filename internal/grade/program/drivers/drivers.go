// Package drivers holds what runs in a sandbox or a container when cases are
// judged: drivers that call a candidate's functions, and a judge in Python for
// places where assay itself is not. It is data: nothing here is run by this
// process, and nothing here holds what a case expects.
package drivers

import (
	_ "embed"
	"strconv"
	"strings"
)

// The languages whose functions can be called, and SQLite's queries.
const (
	Python     = "python"
	JavaScript = "javascript"
	Go         = "go"
	SQL        = "sql"
)

var (
	//go:embed plain.py
	plainPy string
	//go:embed driver.py
	driverPy string
	//go:embed tester.py
	testerPy string
	//go:embed sql.py
	sqlPy string
	//go:embed driver.js
	driverJS string
	//go:embed driver.go.txt
	driverGo string
	//go:embed judge.py
	judgePy string
)

// GoBinary is where GoBuild puts its binary.
const GoBinary = "/tmp/assay-candidate.test"

// GoBuild puts its standard input, the driver, beside the candidate's package,
// in the place of its tests, and builds both. By /bin/sh -c, in the package's
// directory.
const GoBuild = `set -e
rm -f ./*_test.go
cat > ./assay_driver_test.go
export GOTOOLCHAIN=local
[ -n "$HOME" ] || export GOCACHE=/tmp/assay-gocache
[ "$(go env GOMOD)" != /dev/null ] || { go mod init candidate 2>/dev/null && go mod edit -go="$(go env GOVERSION | sed 's/^go\([0-9]*\.[0-9]*\).*/\1/')"; }
exec go test -c -vet=off -o ` + GoBinary + ` .`

// Driver is the command that serves calls of source's functions: requests on
// descriptor 4, answers on 3, the candidate's own output on 2.
func Driver(language, source string) []string {
	switch language {
	case Python:
		return wired("python3", "-B", "-c", plainPy+driverPy, source)
	case JavaScript:
		return wired("node", "-e", driverJS, source)
	case SQL:
		return wired("python3", "-B", "-c", plainPy+sqlPy, source)
	}
	return wired(source) // a binary of GoDriver's
}

// Tester is the command that runs a test script.
func Tester() []string { return wired("python3", "-B", "-c", plainPy+testerPy) }

// wired gives a program its channel and takes the standard streams away.
func wired(args ...string) []string {
	return append([]string{"/bin/sh", "-c", `exec "$@" 3>&1 1>&2 4<&0 0</dev/null`, "sh"}, args...)
}

// GoDriver is the test file that is built with the candidate's package.
func GoDriver(pkg string, funcs []string) string {
	var list strings.Builder
	for _, f := range funcs {
		list.WriteString("\t\"" + f + "\": " + f + ",\n")
	}
	return strings.NewReplacer("@PACKAGE@", pkg, "@FUNCS@", list.String()).Replace(driverGo)
}

// Judge is a program in Python, of its standard library alone, that tries cases
// of functions and queries without assay: judge.py GROUP CASES [REFERENCE] in
// the candidate's directory, where GROUP is a JSON object of name, call, source,
// compare, abs_tol, rel_tol and timeout_sec. It prints STATUS<TAB>NAME:ID.
func Judge() string {
	var b strings.Builder
	b.WriteString("DRIVERS = {\n")
	for _, d := range []struct{ name, text string }{
		{Python, plainPy + driverPy}, {JavaScript, driverJS}, {SQL, plainPy + sqlPy}, {"tester", plainPy + testerPy},
		{Go, driverGo}, {"build", GoBuild}, {"binary", GoBinary},
	} {
		b.WriteString("    " + strconv.QuoteToASCII(d.name) + ": " + strconv.QuoteToASCII(d.text) + ",\n")
	}
	return b.String() + "}\n" + judgePy
}
