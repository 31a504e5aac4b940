package decide

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/grade/report"
	"assay/internal/repo"
)

// mavenSuite is a project's, with its packages below it.
func mavenSuite() repo.Command {
	c := suiteCommand("unit", "mvn -B -o -Dmaven.repo.local=/app/.m2 test", "junit", "target/surefire-reports/TEST-*.xml")
	c.Driver, c.Select = "maven", c.Run+" -Dtest={tests} -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false"
	return c
}

// mavenInstall gives Maven its settings where this machine keeps them apart from
// its program.
const mavenInstall = "RUN [ -e /etc/maven ] || cp -r .maven /etc/maven"

// mavenProject is the fixture with what Maven needs for it of this machine's own
// packages.
func mavenProject(t *testing.T) *world {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	for _, tool := range []string{"mvn", "javac"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s on this machine", tool)
		}
	}
	list, err := os.ReadFile("testdata/maven.packages")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/maven")); err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(list)) {
		name = strings.TrimSpace(name)
		from := filepath.Join(home, ".m2/repository", name)
		if _, err := os.Stat(from); err != nil {
			t.Skipf("Maven's packages on this machine lack %s: run \"mvn test\" in internal/forge/decide/testdata/maven once", name)
		}
		to := filepath.Join(dir, ".m2", name)
		err := filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(p, ".jar") && !strings.HasSuffix(p, ".pom") {
				return err
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(to, e.Name()), b, 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, ".maven"), os.DirFS("/etc/maven")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return project(t, dir, mavenInstall, mavenSuite(), "/usr/bin/mvn")
}

const mavenClasses = `add killed
clamp survived
clamped killed
constant killed
exit killed
hang timeout
resource killed
syntax unviable
throw killed
type unviable
unused uncovered`

func mavenChanges(w *world) []Change {
	const calc = "src/main/java/example/Calc.java"
	return []Change{
		w.swap("add", calc, "return a + b", "return a - b"),
		w.swap("clamp", calc, "if (n > LIMIT)", "if (n >= LIMIT)"),
		w.swap("clamped", calc, "            return LIMIT", "            return n"),
		w.swap("constant", calc, "LIMIT = 10", "LIMIT = 12"),
		w.swap("exit", calc, "return s.toUpperCase", "if (s != null) { System.exit(3); }\n        return s.toUpperCase"),
		w.swap("hang", calc, "n -= 1", "n -= 0"),
		w.swap("resource", "src/main/resources/example/text.txt", "of a file", "of another"),
		w.swap("syntax", calc, "return ++calls", "return ++"),
		w.swap("throw", calc, "return ++calls", "throw new IllegalStateException()"),
		w.swap("type", calc, "public static int add", "static void add"),
		w.swap("unused", calc, "n * 2", "n * 3"),
	}
}

// A warm JVM, and Maven itself for some.
func TestMaven(t *testing.T) {
	w := mavenProject(t)
	ids := map[string]bool{}
	for _, x := range w.env.Suite.Tests {
		ids[x.ID] = x.Stability == repo.Stable
	}
	for _, id := range []string{"example.CalcTest::clamp(int)[2]", "example.CalcTest::upper", "example.CalcTest$Inside::once"} {
		if !ids[id] {
			t.Errorf("no test %s: %v", id, ids)
		}
	}
	changes := mavenChanges(w)
	d := w.decider(Config{Policy: AllCovering})
	warm := w.decided(d, changes)
	if got := classes(warm); got != mavenClasses {
		t.Errorf("warm:\n%s", got)
	}
	for _, v := range warm {
		t.Logf("%s %s %d %v %v %.200s", v.ID, v.Class, v.Ran, v.Failed, v.Took.Round(time.Millisecond), v.Output)
	}
	if d.isCold(d.suite.commands[0]) {
		t.Error("it is not warm")
	}
	some := []Change{changes[4]}
	if os.Getenv("ASSAY_SPEED_DIR") != "" { // a minute more
		some = changes
	}
	for id, v := range w.decide(Config{Cold: true, Policy: AllCovering, Floor: time.Minute}, some...) {
		if v.Class != warm[id].Class && !(v.Class == Survived && warm[id].Class == Uncovered) {
			t.Errorf("%s: %s cold, %s warm\n%s", id, v.Class, warm[id].Class, v.Output)
		}
		if v.Class == Killed && id == "add" && len(v.Failed) != len(warm[id].Failed) {
			t.Errorf("%s: %v cold, %v warm", id, v.Failed, warm[id].Failed)
		}
	}
	if st := warm["add"].Failed["unit:example.CalcTest::add"]; st != string(report.Failed) {
		t.Errorf("%v", warm["add"].Failed)
	}
}
