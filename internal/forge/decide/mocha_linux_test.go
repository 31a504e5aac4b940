package decide

import (
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
