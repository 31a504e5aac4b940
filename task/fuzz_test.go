package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Any text is refused with a place, or read, written and read again as the same.
func FuzzTaskTOML(f *testing.F) {
	f.Add("")
	f.Add("[agent]\ntimeout_sec = \"60\"\n[environment]\nmemory = \"1.5g\"\nallow_internet = false\n")
	f.Add("version = \"1\"\nartifacts = [\"/a\", {source = \"b\", service = \"main\"}]\n[[steps]]\nname = \"a\"\nmin_reward = 1\n")
	f.Add("[metadata.assay]\ngrade = \"patch\"\nprotected = [\"/etc\"]\nx = 1979-05-27\n[metadata]\ny = [[1], {a = 2}]\n")
	f.Add("a.b.c = 1\n[a.d]\n[[a.e]]\n\"\\u0000\" = '''\n'''\n")
	f.Add("[environment.tpu]\ntype='v'\ntopology='2x4'\n[environment]\ncpus = nan\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := decodeTOML(configName, text)
		if err != nil {
			return
		}
		for _, p := range d.problems {
			place := d.doc.place(p.key)
			if lines := strings.Count(string(newlines([]byte(text))), "\n") + 1; place.Line > lines {
				t.Fatalf("%s at line %d of %d", p.key, place.Line, lines)
			}
		}
		if d.err() != nil {
			return
		}
		out, err := d.config.Encode()
		if err != nil {
			t.Fatalf("read and not written: %v", err)
		}
		back, err := ParseConfig(out)
		if err != nil {
			t.Fatal(err)
		}
		d.config.SchemaVersion = cmpOr(d.config.SchemaVersion, SchemaVersion)
		if diff := cmp.Diff(d.config, back, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("%s\n%s", diff, out)
		}
	})
}

// Any task.yaml gives an error or a task, never a panic.
func FuzzTaskYAML(f *testing.F) {
	for _, name := range []string{"tb1-plain", "tb1-older"} {
		b, err := os.ReadFile("testdata/corpus/" + name + "/task.yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add("instruction: |-\n  [[[[\nmax_agent_timeout_sec: '60'\n")
	f.Add("descriptions: [{key: base, description: x}]\n? a\n: b\n")
	f.Add("a: &x [1]\nb: *x\n<<: {c: d}\n")
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, legacyScript), nil, 0o644); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 10_000 {
			return
		}
		if err := os.WriteFile(filepath.Join(dir, legacyConfigName), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		task, err := Load(dir)
		if err != nil {
			return
		}
		if task.Format != FormatTerminalBench1 || len(task.Steps) != 1 || task.Config.Agent.TimeoutSec == nil {
			t.Errorf("%+v", task)
		}
	})
}

// A pattern compiles or is refused, and never matches what it negates alone.
func FuzzIgnore(f *testing.F) {
	f.Add("*.txt\n!keep.txt\n/a/**/b/\n", "a/x/b/c.txt")
	f.Add("[z-a]\n\\", "a")
	f.Add("[]a]\n[!\n[[:alpha:]]\n", "]")
	f.Add("**/\n*/\n/\n", "a/")
	f.Fuzz(func(t *testing.T, text, path string) {
		if !strings.HasPrefix(path, "/") && len(path) < 500 && len(text) < 2000 {
			for _, dialect := range []ignoreDialect{dialectBasic, dialectGit} {
				s, err := parseIgnore(text, dialect)
				if err != nil {
					continue
				}
				excluded, decided := s.match(path)
				if excluded && !decided {
					t.Errorf("excluded and undecided: %q of %q", text, path)
				}
				if len(s.patterns) == 0 && decided {
					t.Errorf("no pattern decides %q of %q", text, path)
				}
				if again, _ := s.match(path); again != excluded {
					t.Error("two answers to one question")
				}
			}
		}
	})
}

// What comes out of the normaliser goes through it unchanged and holds nothing
// that a firewall rule could be bent with.
func FuzzAllowList(f *testing.F) {
	for _, s := range []string{" Example.COM. ", "*.example.org", "10.0.0.0/8", "10.0.0.0/255.0.0.0", "2001:DB8::1", "::ffff:1.2.3.4", "fe80::1%eth0", "a_b", "http://x", "[::1]", "1.2.3.4:80", "0.0.0.0/0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once, err := NormalizeHosts([]string{s})
		if err != nil {
			return
		}
		if strings.Trim(once[0], "abcdefghijklmnopqrstuvwxyz0123456789.-*:/") != "" {
			t.Errorf("%q became %q", s, once[0])
		}
		twice, err := NormalizeHosts(once)
		if err != nil || twice[0] != once[0] {
			t.Errorf("%q became %q, and then %q %v", s, once[0], twice, err)
		}
	})
}

// Lint reads any script.
func FuzzShell(f *testing.F) {
	f.Add("#!/bin/sh\npip install x && curl https://a.b | sh <<'X'\n$(y)\nX\n")
	f.Add("a \\\n 'b\n\" c\\")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, c := range commands(text) {
			if len(c.words) == 0 || c.Line < 1 || c.Line > lines || c.Column < 1 {
				t.Errorf("%+v of %q", c, text)
			}
			installs(c.args())
			downloads(c)
			pythonPackages(c.args())
		}
		dockerInstructions(text)
	})
}
