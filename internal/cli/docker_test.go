package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A job comes to the same verdicts and the same end states in containers and
// in namespaces.
func TestDockerJob(t *testing.T) {
	tar := os.Getenv("ASSAY_BASE_TAR")
	if os.Getenv("DOCKER_HOST") == "" || tar == "" {
		t.Skip("needs a Docker engine named by DOCKER_HOST and a Debian root file system named by ASSAY_BASE_TAR")
	}
	if why := refused(t); why != "" {
		t.Skip(why)
	}
	dir := scratch(t)
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		args = append([]string{"assay", "--store", filepath.Join(dir, "store")}, args...)
		if code := Main(args, World{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: os.LookupEnv}); code != 0 {
			t.Fatalf("%q: exit %d\n%s%s", args, code, &out, &errs)
		}
		return out.String()
	}
	run("image", "import", tar, "--name", "local/base:1")
	seen := map[string][]string{}
	for _, env := range []string{"docker", "ns"} {
		run("run", "-q", "-p", "../../examples/demo", "-l", "2", "-a", "oracle", "-a", "nop", "-n", "2", "-e", env, "--image", "local/base:1",
			"-o", dir, "--job-name", env, "--no-report")
		results, err := filepath.Glob(filepath.Join(dir, env, "*", "result.json"))
		if err != nil || len(results) != 4 {
			t.Fatalf("%s: %d results, %v", env, len(results), err)
		}
		for line := range strings.Lines(run("job", "show", filepath.Join(dir, env), "--trials", "--json")) {
			var trial struct {
				Task, Agent, Outcome, Cause string
				Record                      struct{ Outcome, Cause string }
				Rewards                     map[string]float64
			}
			if err := json.Unmarshal([]byte(line), &trial); err != nil {
				t.Fatal(err)
			}
			seen[env] = append(seen[env], fmt.Sprintf("%+v", trial))
		}
		for _, r := range results {
			b, err := os.ReadFile(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' || r == ',' || r == '{' }) {
				if f := strings.TrimSpace(field); strings.HasPrefix(f, `"layer"`) {
					seen[env] = append(seen[env], strings.Join(strings.Fields(f), ""))
				}
			}
		}
		slices.Sort(seen[env])
	}
	t.Run("services", func(t *testing.T) { dockerServices(t, dir) })
	if len(seen["ns"]) < 6 || !slices.Equal(seen["docker"], seen["ns"]) {
		t.Errorf("docker:\n%s\nns:\n%s", strings.Join(seen["docker"], "\n"), strings.Join(seen["ns"], "\n"))
	}
}
