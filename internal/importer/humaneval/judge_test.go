package humaneval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/importer"
)

const handMade = "testdata/problems.jsonl"

// python returns an interpreter for the judge: the system's own where there is
// one, because an interpreter in a private home cannot run as another user.
func python(t testing.TB) string {
	t.Helper()
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if found, err := exec.LookPath(p); err == nil {
			return found
		}
	}
	t.Skip("no python3 on this machine: the judge cannot run")
	return ""
}

// imported imports src and returns the task directories in order.
func imported(t testing.TB, src string) []string {
	t.Helper()
	out := openDir(t)
	var dirs []string
	_, err := Importer{}.Import(context.Background(), src, out, importer.Options{
		Progress: func(p importer.Progress) { dirs = append(dirs, filepath.Join(out, p.Task)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// openDir returns a temporary directory that every user may enter, as /app and
// /tests are in a container.
func openDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// verdict is all that a run of the judge left behind.
type verdict struct {
	reward  string // reward.txt, trimmed; empty when there is none
	exit    int    // -1 when a signal ended the judge
	details struct {
		Evidence string
		Verdict  string
		Reason   string
		Calls    int
		Walls    map[string]any
		Output   string
	}
	printed string
	names   []string // what lies in the log directory
}

// seat is where one candidate is judged.
type seat struct {
	entry, tests, app, logs string
	call                    string // seconds per call
}

// sit lays out a candidate for the task in dir.
func sit(t testing.TB, dir string, solution []byte) seat {
	t.Helper()
	root := openDir(t)
	s := seat{entry: entry(t, dir), tests: filepath.Join(dir, "tests"),
		app: filepath.Join(root, "app"), logs: filepath.Join(root, "logs"), call: "10"}
	for _, d := range []string{s.app, s.logs} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o777); err != nil { // whatever the umask: Harbor's are 777
			t.Fatal(err)
		}
	}
	if solution != nil {
		if err := os.WriteFile(filepath.Join(s.app, "solution.py"), solution, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// entry takes the entry point from where the real run takes it.
func entry(t testing.TB, dir string) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(dir, "tests", "test.sh"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(script), "--entry ")
	if !ok {
		t.Fatalf("%s: test.sh names no entry point", dir)
	}
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

// judge runs judge.py directly, as test.sh does with Harbor's paths.
func (s seat) judge(t testing.TB) verdict {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, python(t), "-I", "-S", "-B", filepath.Join(s.tests, "judge.py"), "--entry", s.entry,
		"--tests", s.tests, "--app", s.app, "--logs", s.logs, "--call", s.call, "--total", "20")
	cmd.Dir = s.app
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	v := verdict{exit: cmd.ProcessState.ExitCode(), printed: printed.String()}
	v.read(t, s.logs)
	return v
}

func (v *verdict) read(t testing.TB, logs string) {
	t.Helper()
	entries, err := os.ReadDir(logs)
	if err != nil {
		t.Fatal(err)
	}
	v.names = nil
	for _, e := range entries {
		v.names = append(v.names, e.Name())
	}
	if b, err := os.ReadFile(filepath.Join(logs, "reward.txt")); err == nil {
		v.reward = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile(filepath.Join(logs, "reward-details.json")); err == nil {
		if err := json.Unmarshal(b, &v.details); err != nil {
			t.Errorf("reward-details.json: %v\n%s", err, b)
		}
	}
}

// passed is what a harness would make of it.
func (v verdict) passed() bool { return v.reward != "0" || v.exit == 0 }

func (v verdict) String() string {
	return fmt.Sprintf("reward %q, exit %d, %q after %d calls, files %v, printed %q, output %q",
		v.reward, v.exit, v.details.Reason, v.details.Calls, v.names, v.printed, v.details.Output)
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cheats returns the attacks of testdata/cheats by name.
func cheats(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/cheats/*.py")
	if err != nil || len(paths) < 20 {
		t.Fatalf("only %d cheats found: %v", len(paths), err)
	}
	all := map[string][]byte{}
	for _, p := range paths {
		all[strings.TrimSuffix(filepath.Base(p), ".py")] = readFile(t, p)
	}
	return all
}

func TestGoldPassesAndStubFails(t *testing.T) {
	for _, dir := range imported(t, handMade) {
		gold := sit(t, dir, readFile(t, filepath.Join(dir, "solution", "solution.py"))).judge(t)
		if gold.reward != "1" || gold.exit != 0 || gold.details.Verdict != "pass" || gold.details.Calls == 0 {
			t.Errorf("gold of %s: %v", filepath.Base(dir), gold)
		}
		if stub := sit(t, dir, readFile(t, filepath.Join(dir, "environment", "solution.py"))).judge(t); stub.passed() {
			t.Errorf("the untouched stub of %s passes: %v", filepath.Base(dir), stub)
		}
		if none := sit(t, dir, nil).judge(t); none.passed() {
			t.Errorf("no solution at all passes %s: %v", filepath.Base(dir), none)
		}
	}
}

func TestCheatsScoreNothing(t *testing.T) {
	dirs := imported(t, handMade)
	for name, source := range cheats(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // half of them only wait for a deadline
			for _, dir := range dirs {
				s := sit(t, dir, source)
				s.call = "0.3"
				v := s.judge(t)
				if v.passed() || v.exit != 1 || v.details.Verdict != "fail" {
					t.Errorf("%s: %v", filepath.Base(dir), v)
				}
				if strings.Contains(v.details.Output, "REACHED") {
					t.Errorf("%s: the candidate reached the judge: %v", filepath.Base(dir), v)
				}
				if got := strings.Join(v.names, " "); got != "reward-details.json reward.txt" {
					t.Errorf("%s: the log directory holds %s", filepath.Base(dir), got)
				}
			}
		})
	}
}

// Whatever a candidate starts is dead before the reward is there: a moment
// later nothing has changed, and no process knows the workspace.
func TestNothingOfTheCandidateSurvives(t *testing.T) {
	dir := imported(t, handMade)[0]
	for _, name := range []string{"daemon", "fork_bomb", "atexit_tricks"} {
		s := sit(t, dir, cheats(t)[name])
		s.call = "0.3"
		s.judge(t)
		time.Sleep(50 * time.Millisecond)
		var later verdict
		later.read(t, s.logs)
		if later.reward != "0" || len(later.names) != 2 {
			t.Errorf("%s: later the log directory holds %v with reward %q", name, later.names, later.reward)
		}
		links, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, l := range links {
			if at, err := os.Readlink(l); err == nil && at == s.app {
				t.Errorf("%s: %s still runs in the workspace", name, l)
			}
		}
	}
}

const (
	dropUser = `    held["uid"] = _drop_user(needed)` + "\n"
	landlock = `    held["landlock_abi"] = _landlock(readable) if held["no_new_privs"] else 0` + "\n"
	limits   = `    held["limits"] = _limit(cpu_seconds)` + "\n"
	dropCaps = `    held["no_capabilities"] = _drop_capabilities()` + "\n"
	forget   = `self.held["tests_removed"] = remove_all(secrets)`
	kill     = `alone = proxy.kill()`
	hide     = `_prctl(PR_SET_DUMPABLE, 0)`
)

// without replaces one text in one of the judge's files.
type without struct{ file, old, new string }

var (
	noUser      = without{"walls.py", dropUser, "    held['uid'] = os.geteuid()\n"}
	noLandlock  = without{"walls.py", landlock, "    held['landlock_abi'] = 0\n"}
	noLimits    = without{"walls.py", limits, ""}
	noCaps      = without{"walls.py", dropCaps, ""}
	noForget    = without{"judge.py", forget, "pass"}
	noKill      = without{"judge.py", kill, "alone = True"}
	noHiding    = without{"walls.py", hide, "False"}
	sameVerdict = without{"judge.py", "        return False, str(e)\n", "        return True, str(e)\n"}
	sameProcess = without{"judge.py", "check(proxy)\n",
		"exec(open(os.path.join(options.app, 'solution.py')).read(), names); proxy.calls = 1; check(names['__getattr__']('x'))\n"}
)

// The judge is weakened until each cheat gets through: the proof that the
// cheats can bite, and that what was taken away is what held them.
func TestCheatsHaveTeeth(t *testing.T) {
	for cheat, missing := range map[string][]without{
		"read_tests":          {noUser, noLandlock, noForget},
		"daemon":              {noUser, noLandlock, noLimits, noKill},
		"kill_parent":         {noUser, noLandlock, noLimits},
		"equal_to_everything": {sameProcess},
		"exit_zero":           {sameVerdict},
	} {
		t.Run(cheat, func(t *testing.T) {
			s := sit(t, weakened(t, missing...), cheats(t)[cheat])
			v := s.judge(t)
			for end := time.Now().Add(time.Second); v.reward != "1" && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				v.read(t, s.logs)
			}
			if v.reward != "1" {
				t.Errorf("the weakened judge still holds: %v", v)
			}
		})
	}
	t.Run("read_judge_memory", func(t *testing.T) {
		v := sit(t, weakened(t, noUser, noLandlock, noCaps, noHiding), cheats(t)["read_judge_memory"]).judge(t)
		if !strings.Contains(v.details.Output, "REACHED") {
			t.Errorf("the weakened judge still holds: %v", v)
		}
	})
}

// Where the kernel or the container refuses one wall, the others hold alone.
func TestOneWallIsEnough(t *testing.T) {
	for name, missing := range map[string][]without{
		"landlock": {noUser, noForget},
		"user":     {noLandlock, noForget},
		"removal":  {noUser, noLandlock},
	} {
		t.Run(name, func(t *testing.T) {
			dir := weakened(t, missing...)
			gold := sit(t, dir, readFile(t, filepath.Join(dir, "solution", "solution.py"))).judge(t)
			if gold.reward != "1" {
				t.Fatalf("gold: %v", gold)
			}
			walls := gold.details.Walls
			if name == "user" && walls["uid"] != 65534.0 {
				t.Skipf("no other user to become: the judge runs as uid %d", os.Geteuid())
			}
			if name == "landlock" && walls["landlock_abi"] == 0.0 {
				t.Skip("no Landlock in this kernel")
			}
			attacks := []string{"read_tests", "reward_writer", "daemon", "read_judge_memory", "edit_tests"}
			if name == "removal" {
				attacks = attacks[:1] // it hides the tests, no more
			}
			for _, cheat := range attacks {
				dir := weakened(t, missing...) // an attack may change it
				if v := sit(t, dir, cheats(t)[cheat]).judge(t); v.passed() || strings.Contains(v.details.Output, "REACHED") {
					t.Errorf("%s: %v", cheat, v)
				}
			}
		})
	}
}

// weakened imports the first problem and takes something from its judge.
func weakened(t *testing.T, missing ...without) (dir string) {
	t.Helper()
	dir = imported(t, handMade)[0]
	for _, m := range missing {
		mutate(t, filepath.Join(dir, "tests", m.file), m.old, m.new)
	}
	return dir
}

func mutate(t *testing.T, path, old, new string) {
	t.Helper()
	text := string(readFile(t, path))
	if strings.Count(text, old) != 1 {
		t.Fatalf("%s does not hold %q once", path, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(text, old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkJudgeGold(b *testing.B) {
	dir := imported(b, handMade)[0]
	s := sit(b, dir, readFile(b, filepath.Join(dir, "solution", "solution.py")))
	for b.Loop() {
		if v := s.judge(b); v.reward != "1" {
			b.Fatal(v)
		}
	}
}
