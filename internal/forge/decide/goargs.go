package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// goCall is what a suite's "go test" is called with, sorted by what it is for.
type goCall struct {
	build    []string // flags of the build
	run      []string // flags of the test binary, as it knows them
	packages []string
}

// Flags of go test by what they are for here. Those of neither list and without
// a value are taken for flags of the build.
var (
	goBuildValues = []string{"tags", "mod", "modfile", "ldflags", "gcflags", "asmflags", "overlay", "pgo", "p", "buildmode", "compiler", "installsuffix", "pkgdir", "gccgoflags", "buildvcs"}
	goRunValues   = []string{"skip", "parallel", "cpu", "shuffle", "testlogfile"}
	goRunBools    = []string{"short"}
	goDropValues  = []string{"run", "timeout", "count", "coverprofile", "covermode", "coverpkg", "o", "outputdir", "vet", "bench", "benchtime", "list"}
	goDropBools   = []string{"json", "v", "failfast", "cover", "benchmem", "x", "n", "a", "work", "fullpath"}
)

// readGoArgs sorts the arguments of one "go test".
func readGoArgs(args []string) (c goCall, err error) {
	if len(args) == 0 || args[0] != "test" {
		return c, errors.New("not a go test")
	}
	args = args[1:]
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if a == "-args" || a == "--args" {
			return c, errors.New("it passes -args")
		}
		if !strings.HasPrefix(a, "-") || a == "-" {
			c.packages = append(c.packages, a)
			continue
		}
		name, value, has := strings.Cut(strings.TrimLeft(a, "-"), "=")
		name = strings.TrimPrefix(name, "test.")
		take := func() {
			if !has && len(args) > 0 {
				value, args = args[0], args[1:]
			}
		}
		switch {
		case name == "exec" || name == "toolexec" || name == "fuzz" || name == "C":
			return c, fmt.Errorf("it uses -%s", name)
		case slices.Contains(goBuildValues, name):
			take()
			c.build = append(c.build, "-"+name+"="+value)
		case slices.Contains(goRunValues, name):
			take()
			c.run = append(c.run, "-test."+name+"="+value)
		case slices.Contains(goRunBools, name):
			c.run = append(c.run, "-test."+a[strings.Index(a, name):])
		case slices.Contains(goDropValues, name):
			take()
		case slices.Contains(goDropBools, name):
		default:
			c.build = append(c.build, a)
		}
	}
	if len(c.packages) == 0 {
		c.packages = []string{"."}
	}
	return c, nil
}
