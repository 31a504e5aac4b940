// Package inside holds what runs in a sandbox or a container when cases are
// judged: drivers that call a candidate's functions, and a judge in Python for
// places where assay itself is not. It is data: nothing here is run by this
// process, and nothing here holds what a case expects.
package inside

import (
	_ "embed"
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
)

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
