package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// alive finds a program of this machine by an argument that nothing else has.
func alive(t *testing.T, argument string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), "\x00"+argument+"\x00") {
			return true
		}
	}
	return false
}

// What a build does to its machine it does to its sandbox: the report says how
// it ended, and nothing goes on after it.
func TestHostileBuilds(t *testing.T) {
	tool(t, "make")
	const marked = "86399.1375"
	escaped := filepath.Join(t.TempDir(), "escaped")
	cases := []struct {
		name, line string
		limits     sandbox.Limits
		timeout    time.Duration
		want       []string
	}{
		{"fork bomb", "b() { b | b & }; b; sleep 1; echo out of it; false", sandbox.Limits{Pids: 40}, time.Minute, []string{"does not build"}},
		{"fills the disk", "head -c 64M /dev/zero >/app/zeros", sandbox.Limits{DiskBytes: 8 << 20}, time.Minute, []string{"does not build", "--disk MIB"}},
		{"writes outside", "echo x >" + escaped + "; echo 1 >/proc/sys/kernel/panic; chmod 777 /etc/shadow; false", sandbox.Limits{}, time.Minute, []string{"does not build"}},
		{"stays behind", "setsid sleep " + marked + " >/dev/null 2>&1 & (trap '' TERM HUP; sleep " + marked + ") & false", sandbox.Limits{}, time.Minute, []string{"does not build"}},
		{"kills its parents", "kill -9 -1; kill -9 $PPID; kill -9 1; sleep " + marked, sandbox.Limits{}, time.Second, []string{"does not build"}},
		{"floods", "yes", sandbox.Limits{}, time.Second, []string{"does not build", "no end after 1s"}},
		{"fetches", "echo 'curl: (6) Could not resolve host: example.org'; exit 6", sandbox.Limits{}, time.Minute, []string{"--allow-host"}},
	}
	shared := workshop(t)
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			o := shared
			o.Source = repository(t, map[string]string{"Makefile": "check:\n\ttrue\n", "x.c": "int x;\n"})
			o.Out, o.Temp, o.Limits = filepath.Join(t.TempDir(), "out"), t.TempDir(), c.limits
			byRecipe(t, o.Out, &Recipe{Version: 1, Name: "project", Base: image.HostName, Install: []string{c.line},
				Suite: RecipeSuite{Runs: 1, TimeoutSec: 60, BuildSec: c.timeout.Seconds()}, Tests: []RecipeTest{{Name: "make", Run: "make check"}}})
			env, err := Run(t.Context(), o)
			if err == nil {
				t.Fatalf("it was set up: %+v", env)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in: %v", w, err)
				}
			}
			if len(err.Error()) > 20_000 {
				t.Errorf("a report of %d bytes", len(err.Error()))
			}
			if alive(t, marked) {
				t.Error("a process goes on")
			}
			if _, err := os.Stat(escaped); err == nil {
				t.Error("it wrote on the machine")
			}
		})
	}
}

func byRecipe(t *testing.T, out string, r *Recipe) {
	t.Helper()
	b, err := r.Encode()
	if err == nil {
		err = os.MkdirAll(out, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(out, RecipeFile), b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Odd trees become healthy images as they are: names that are not UTF-8 or have
// line breaks, links that lead out or in a circle, pointers without content, and
// a program of the build that does not end.
func TestOddTreeIsSetUp(t *testing.T) {
	tool(t, "make")
	tool(t, "git")
	const marked = "86398.2651"
	o := workshop(t)
	o.Source = repository(t, map[string]string{
		"Makefile":    "check:\n\tls | wc -l\n",
		"na\xefve.c":  "int n;\n",
		"with\nbreak": "x\n",
		"tab\tand \"": "x\n",
		"big.bin":     "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n",
	})
	for name, to := range map[string]string{"out": "/etc/hostname", "up": "../../../etc/passwd", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(o.Source, name)); err != nil {
			t.Fatal(err)
		}
	}
	byRecipe(t, o.Out, &Recipe{Version: 1, Name: "project", Base: image.HostName, Install: []string{"setsid sleep " + marked + " >/dev/null 2>&1 &"},
		Suite: RecipeSuite{Runs: 1, TimeoutSec: 60}, Tests: []RecipeTest{{Name: "make", Run: "make check; setsid sleep " + marked + " &"}}})
	env, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if alive(t, marked) {
		t.Error("a process goes on")
	}
	im, err := o.Images.Resolve(env.Image)
	if err != nil {
		t.Fatal(err)
	}
	if got := inImage(t, o, im, "git status --porcelain | wc -l; git ls-files | wc -l"); strings.Join(strings.Fields(got), " ") != "0 8" {
		t.Errorf("git says %q", got)
	}
	if _, err := repo.ReadEnvironment(o.Out); err != nil {
		t.Error(err)
	}
}

// What was noted of the files stands in the report of a failure: a submodule
// that is not there may be its cause.
func TestNotesAreInTheReport(t *testing.T) {
	tool(t, "make")
	o := workshop(t)
	o.Tests = []string{"make check"}
	o.Source = repository(t, map[string]string{"Makefile": "check:\n\t! grep -q git-lfs model.bin\n", "x.c": "int x;\n",
		"model.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"})
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "pointers of Git LFS") {
		t.Errorf("no word of LFS in: %v", err)
	}
}

// A service that does not start says so itself.
func TestServiceThatDoesNotStart(t *testing.T) {
	tool(t, "make")
	o := workshop(t)
	o.Tests, o.Services = []string{"make check"}, []string{"no-such-database --daemonize yes"}
	o.Source = repository(t, map[string]string{"Makefile": "check:\n\techo 'dial tcp 127.0.0.1:6379: Connection refused'; false\n", "x.c": "int x;\n"})
	_, err := Run(t.Context(), o)
	if err == nil {
		t.Fatal("it was set up")
	}
	for _, w := range []string{"no-such-database", "not found", "needs a service", "services = ["} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("no %q in: %v", w, err)
		}
	}
}

// Flags that a recipe overrules are named.
func TestUnusedFlags(t *testing.T) {
	r := &Recipe{Base: "debian:trixie", Services: []string{"a"}, Secrets: []string{"x"}}
	o := Config{Image: "debian:trixie", Services: []string{"b"}, Secrets: []string{"x"}, SSH: []string{"default"}}
	if got := strings.Join(o.unused(r), " "); got != "--service --ssh" {
		t.Errorf("unused: %s", got)
	}
}
