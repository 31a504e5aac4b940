package decide

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// mochaProject is some of Express's own suite: Mocha comes with its packages.
func mochaProject(t *testing.T) *world {
	dir := filepath.Join(os.Getenv("ASSAY_SPEED_DIR"), "express")
	if _, err := os.Stat(filepath.Join(dir, "node_modules/mocha")); err != nil || os.Getenv("ASSAY_SPEED_DIR") == "" {
		t.Skip("ASSAY_SPEED_DIR has no Express with its packages: scripts/long mutation-speed")
	}
	c := suiteCommand("unit", "node_modules/.bin/mocha --require test/support/env --reporter json --reporter-option output=/tmp/r.json --check-leaks test/utils.js test/Route.js test/req.accepts.js test/req.ip.js", "mocha", "/tmp/r.json")
	c.Driver = "mocha"
	return project(t, dir, "", c, "/usr/bin/node")
}

const mochaClasses = `absolute killed
apart uncovered
crash killed
hang timeout
import unviable
late killed
same survived
syntax unviable`

func TestMocha(t *testing.T) {
	w := mochaProject(t)
	got := w.decide(Config{Concurrent: 2},
		w.swap("absolute", "lib/utils.js", "if ('/' === path[0]) return true", "if ('/' !== path[0]) return true"),
		w.swap("same", "lib/utils.js", "path.substring(0, 2)", "path.substr(0, 2)"),
		w.swap("apart", "lib/utils.js", "exports.normalizeTypes = function(types){\n", "exports.normalizeTypes = function(types){ return [];\n"),
		w.swap("crash", "lib/router/route.js", "debug('new %o', path)", "process.exit(3)"),
		w.swap("hang", "lib/router/route.js", "debug('new %o', path)", "for (;;) {}"),
		w.swap("late", "lib/router/route.js", "if (stack.length === 0) {", "if (stack.length !== 0) {"),
		w.swap("import", "lib/utils.js", "exports.isAbsolute = function(path){", "exports.isAbsolute = nowhere;(function(path){"),
		w.swap("syntax", "lib/utils.js", "exports.isAbsolute = function(path){", "exports.isAbsolute = = function(path){"))
	if c := classes(got); c != mochaClasses {
		t.Errorf("%s", c)
		for _, v := range got {
			t.Logf("%s %s %d %v %.400s", v.ID, v.Class, v.Ran, v.Took.Round(time.Millisecond), v.Output)
		}
	}
}

// jestProject is a project in testdata with a Jest of ASSAY_RUNNERS, a directory
// with installed packages.
func jestProject(t *testing.T) *world {
	packages := os.Getenv("ASSAY_RUNNERS")
	if _, err := os.Stat(filepath.Join(packages, "node_modules/jest")); err != nil || packages == "" {
		t.Skip("ASSAY_RUNNERS has no Jest: npm install jest there")
	}
	dir := t.TempDir()
	for from, to := range map[string]string{"testdata/jest": "", filepath.Join(packages, "node_modules"): "node_modules"} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	c := suiteCommand("unit", "node_modules/.bin/jest --ci --json --outputFile=/tmp/r.json --coverage=false", "jest", "/tmp/r.json")
	c.Driver = "jest"
	return project(t, dir, "", c, "/usr/bin/node")
}

const jestClasses = `apart uncovered
async killed
crash killed
hang timeout
import unviable
killed killed
same survived
syntax unviable`

func TestJest(t *testing.T) {
	w := jestProject(t)
	changes := []Change{
		w.swap("killed", "lib/price.js", "percent > 50", "percent > 70"),
		w.swap("same", "lib/price.js", "percent > 50", "percent >= 51"),
		w.swap("apart", "lib/price.js", "return sum / 2", "return sum / 3"),
		w.swap("async", "lib/stock.js", "if (left < 0) throw", "if (left < -5) throw"),
		w.swap("crash", "lib/stock.js", "this.have = new Map()", "process.exit(3)"),
		w.swap("hang", "lib/stock.js", "const left = ", "for (;;) {}; const left = "),
		w.swap("import", "lib/stock.js", "module.exports = { Stock }", "module.exports = { Stock: nowhere }"),
		w.swap("syntax", "lib/price.js", "exports.total = ", "exports.total = = "),
	}
	var said []string
	got := w.decide(Config{Concurrent: 2, Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}, changes...)
	if c := classes(got); c != jestClasses || len(said) > 0 {
		t.Errorf("%s\n%s", c, said)
	}
	// Processes of their own end with a report too.
	cold := w.decide(Config{Concurrent: 2, Cold: true}, changes[:2]...)
	for id, v := range cold {
		if v.Class != got[id].Class {
			t.Errorf("%s: %s, and cold %s: %.400s", id, got[id].Class, v.Class, v.Output)
		}
	}
	for _, v := range got {
		t.Logf("%s %s %d %v %.400s", v.ID, v.Class, v.Ran, v.Took.Round(time.Millisecond), v.Output)
	}
}
