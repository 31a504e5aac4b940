package decide

import (
	"testing"
	"time"
)

func goProject(t *testing.T) *world {
	install := "ENV PATH=/usr/local/go/bin:/usr/bin:/bin GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-buildvcs=false\nRUN go test -count=1 ./... >/dev/null 2>&1; true"
	return project(t, "testdata/golang", install, suiteCommand("unit", "go test -json -count=1 ./...", "go-test"), "/usr/local/go/bin/go")
}

func goChanges(w *world) []Change {
	return []Change{
		w.swap("add", "calc.go", "return a + b", "return a - b"),
		w.swap("clamp", "calc.go", "if n > limit", "if n >= limit"),
		w.swap("clamped", "calc.go", "return limit", "return n"),
		w.swap("const", "calc.go", "limit = 10", "limit = 11"),
		w.swap("hang", "calc.go", "n -= 1", "n -= 0"),
		w.swap("import", "calc.go", "strings.ToUpper(s)", "s"),
		w.swap("return", "calc.go", "\treturn strings.ToUpper(s)\n", "\tif s != \"\" {\n\t\treturn strings.ToUpper(s)\n\t}\n"),
		w.swap("type", "calc.go", "strings.ToUpper(s)", "strings.Count(s, s)"),
		w.swap("panic", "calc.go", "return total", "panic(total)"),
		w.swap("exit", "calc.go", "strings.ToUpper(s)", "strings.Repeat(s, -len(s))"),
		w.swap("unused", "calc.go", "n * 2", "n * 3"),
	}
}

const goClasses = `add killed
clamp survived
clamped killed
const killed
exit killed
hang timeout
import unviable
panic killed
return unviable
type unviable
unused survived`

// Changes that share builds, and each alone by the suite's own command.
func TestGo(t *testing.T) {
	w := goProject(t)
	changes := goChanges(w)
	warm := w.decide(Config{Floor: 4 * time.Second}, changes...)
	if got := classes(warm); got != goClasses {
		t.Errorf("warm:\n%s", got)
		for _, v := range warm {
			t.Logf("%+v", v)
		}
	}
	cold := w.decide(Config{Cold: true, Policy: AllCovering, Floor: time.Minute}, changes[0], changes[5])
	if got := classes(cold); got != "add killed\nimport unviable" {
		t.Errorf("cold:\n%s", got)
	}
	if v := cold["add"]; len(v.Failed) != 1 || v.Failed["unit:example.com/calc::TestAdd"] != "failed" {
		t.Errorf("%+v", v)
	}
}

// What the compiler has to be asked for shares a build as well.
func TestGoVariants(t *testing.T) {
	old := []byte("package p\n\nimport \"fmt\"\n\nfunc a() int {\n\treturn 1\n}\n\nfunc b() { fmt.Println() }\n\nfunc l() {\nx:\n\tfor {\n\t\tbreak x\n\t}\n}\n")
	for text, want := range map[string]string{
		"return 1":      "",
		"func a":        "outside of functions",
		"fmt.Println()": "",
		"break x":       "a function with labels",
	} {
		now := map[string]string{"return 1": "return 2", "func a": "func c", "fmt.Println()": "", "break x": "continue x"}[text]
		b := []byte(string(replaceOnce(old, text, now)))
		_, err := goVariantOf(map[string][]byte{"p.go": old}, map[string][]byte{"p.go": b})
		if got := errText(err); got != want {
			t.Errorf("%s: %q", text, got)
		}
		unfit := goUnfit(old, b)
		if (text == "fmt.Println()") != (unfit != "") {
			t.Errorf("%s: unfit: %q", text, unfit)
		}
	}
}

func TestGoArgs(t *testing.T) {
	c, err := readGoArgs([]string{"test", "-json", "-count=1", "-race", "-tags", "a b", "-short", "-run", "X", "-vet=off", "./..."})
	if err != nil || len(c.build) != 2 || c.build[1] != "-tags=a b" || len(c.run) != 1 || c.run[0] != "-test.short" || len(c.packages) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := readGoArgs([]string{"test", "-exec", "x"}); err == nil {
		t.Error("-exec is taken")
	}
}

func TestStopping(t *testing.T) {
	c := command{}
	c.Report = "mocha-log"
	got := c.stopping(". /etc/profile; node_modules/.bin/mocha --reporter /tests/assay_mocha.cjs test/")
	if got != ". /etc/profile; node_modules/.bin/mocha --bail --reporter /tests/assay_mocha.cjs test/" {
		t.Error(got)
	}
}

func replaceOnce(b []byte, old, new string) []byte {
	for i := 0; i+len(old) <= len(b); i++ {
		if string(b[i:i+len(old)]) == old {
			return append(append(append([]byte{}, b[:i]...), new...), b[i+len(old):]...)
		}
	}
	return b
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What a command gives up, or who it runs as, is read off its line whole.
func TestMasked(t *testing.T) {
	for line, want := range map[string]string{
		`. /etc/profile; setpriv --bounding-set -dac_override,-fowner --inh-caps -dac_override go test -json ./...`: `setpriv --bounding-set -dac_override,-fowner --inh-caps -dac_override `,
		`setpriv --reuid=1000 --regid=1000 --clear-groups go test ./...`:                                            `setpriv --reuid=1000 --regid=1000 --clear-groups `,
		`setpriv --reuid 1000 --regid 1000 --init-groups cargo test`:                                                `setpriv --reuid 1000 --regid 1000 --init-groups `,
		`cd setpriv && go test ./...`: "",
		`go test -run setprivacy`:     "",
	} {
		if got := masked.FindString(line); got != want {
			t.Errorf("%s: %q, not %q", line, got, want)
		}
	}
}
