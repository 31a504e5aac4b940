package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A check plan is graded in containers as in namespaces: the same verdict, byte
// for byte, and once more when the job is regraded.
func TestDockerChecks(t *testing.T) {
	tar := os.Getenv("ASSAY_BASE_TAR")
	if os.Getenv("DOCKER_HOST") == "" || tar == "" {
		t.Skip("needs a Docker engine named by DOCKER_HOST and a Debian root file system named by ASSAY_BASE_TAR")
	}
	if why := refused(t); why != "" {
		t.Skip(why)
	}
	dir := scratch(t)
	run := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		args = append([]string{"assay", "--store", filepath.Join(dir, "store")}, args...)
		if code := Main(args, World{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: os.LookupEnv}); code != want {
			t.Fatalf("%q: exit %d\n%s%s", args, code, &out, &errs)
		}
		return out.String()
	}
	for name, text := range map[string]string{
		"task.toml": "[environment]\ndocker_image = \"local/base:1\"\nworkdir = \"/srv\"\n[metadata.assay]\ngrade = \"patch\"\n", "instruction.md": "Write done.",
		"solution/solve.sh": "#!/bin/sh\necho done >/srv/answer\n", "tests/test.sh": "exit 1\n", "tests/want": "done\n",
		"tests/suite.sh": `[ "$(cat answer)" = "$(cat /tests/want)" ] && f=0 || { f=1; x='<failure message="AssertionError: no">no</failure>'; }
printf '<testsuites><testsuite name="pytest" errors="0" failures="%s" skipped="0" tests="1" time="0.1"><testcase classname="t" name="answer" time="0">%s</testcase></testsuite></testsuites>' $f "$x" >report.xml
exit $f
`,
		"tests/checks.toml": `version = 1
protected = ["/etc/debian_version"]
[[commands]]
name = "unit"
run = "sh /tests/suite.sh"
report = "pytest"
files = ["report.xml"]
fail_to_pass = ["t::answer"]
[[commands.canaries]]
file = "want"
old = "done"
new = "undone"
breaks = ["t::answer"]
[[state]]
name = "answer"
path = "answer"
equals = "done\n"
`} {
		p := filepath.Join(dir, "task", name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run(0, "image", "import", tar, "--name", "local/base:1")
	verdicts := func(job string) string {
		all, err := filepath.Glob(filepath.Join(dir, job, "*", "verifier", "verdict.json"))
		if err != nil || len(all) != 2 {
			t.Fatalf("%s: %q, %v", job, all, err)
		}
		texts := map[bool]string{}
		for _, p := range all {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			texts[strings.Contains(string(b), `"resolved": true`)] = string(b)
		}
		return texts[true] + texts[false]
	}
	seen := map[string]string{}
	for _, env := range []string{"ns", "docker"} {
		run(0, "run", "-q", "-p", filepath.Join(dir, "task"), "-a", "oracle", "-a", "nop", "-n", "2", "-e", env, "-o", dir, "--job-name", env, "--no-report")
		seen[env] = verdicts(env)
		run(0, "job", "regrade", "-e", env, filepath.Join(dir, env), "--no-report")
		if again := verdicts(env); again != seen[env] || !strings.Contains(again, `"resolved": true`) || !strings.Contains(again, `"canaried"`) {
			t.Errorf("%s:\n%s\nbefore:\n%s", env, again, seen[env])
		}
	}
	if seen["ns"] != seen["docker"] {
		t.Errorf("ns:\n%s\ndocker:\n%s", seen["ns"], seen["docker"])
	}
}
