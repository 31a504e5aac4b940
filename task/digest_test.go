package task

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// digestTrees are directories whose hash depends on every rule there is.
func digestTrees() map[string]map[string]string {
	return map[string]map[string]string{
		"plain": minimal(nil),
		"order": minimal(map[string]string{
			"tests/a b.txt": "1", "tests/a-b.txt": "2", "tests/a.txt": "3", "tests/a/b.txt": "4",
			"tests/é": "5", "tests/\U0001f600": "6", "tests/\uffee": "7", "tests/Z": "8",
		}),
		"other root files": minimal(map[string]string{"README.md": "r", "LICENSE": "l", "trajectory.json": "{}", "notes/x": "n", "proof.json": "{}"}),
		"hidden":           minimal(map[string]string{"environment/.hidden/.x": "", "tests/.gitignore": "*\n", "environment/empty/": ""}),
		"default ignores": minimal(map[string]string{
			"tests/__pycache__/x.pyc": "1", "tests/x.pyc": "2", "environment/.DS_Store": "3", "solution/a~": "4", "solution/.a.swp": "5", "tests/__pycache__x": "6", "environment/__pycache__": "a file",
		}),
		"root gitignore": minimal(map[string]string{".gitignore": "*.log\n!keep.log\n/environment/data/\ntests/**/tmp\n", "environment/x.log": "1", "environment/keep.log": "2", "environment/data/y": "3", "tests/a/b/tmp/z": "4", "tests/x.pyc": "5"}),
		"harborignore": minimal(map[string]string{
			"tests/.harborignore": "*.txt\n!keep.txt\nsub/\n", "tests/a.txt": "1", "tests/keep.txt": "2", "tests/sub/x": "3",
			"solution/.harborignore": "/only-here\n", "solution/only-here": "4", "solution/d/only-here": "5", "solution/d/.harborignore": "!x\n*\n",
			"environment/.harborignore": "*\n", "environment/stays.txt": "6", ".harborignore": "*\n",
			"steps/one/tests/.harborignore": "gone\n", "steps/one/tests/gone": "7", "steps/one/workdir/.harborignore": "*\n", "steps/one/workdir/stays": "8",
		}),
		"links": minimal(map[string]string{
			"tests/to-file": "-> test.sh", "tests/to-dir": "-> ../environment", "tests/broken": "-> nowhere", "environment/out": "-> /etc/hostname",
			"environment/to-ignored": "-> ../tests/secret.txt", "tests/.harborignore": "secret.txt\n", "tests/secret.txt": "1", "environment/abs": "-> /",
		}),
		"loop":                     minimal(map[string]string{"environment/loop": "-> loop"}),
		"excluded loop":            minimal(map[string]string{"tests/loop": "-> loop", "tests/.harborignore": "loop\n"}),
		"tests is a link":          minimal(map[string]string{"!tests/test.sh": "", "real/test.sh": "x", "tests": "-> real"}),
		"instruction is a link":    minimal(map[string]string{"instruction.md": "-> README.md", "README.md": "r"}),
		"line break in a name":     minimal(map[string]string{"tests/a\nb": "1", "tests/a~\n": "2"}),
		"carriage returns":         minimal(map[string]string{"instruction.md": "a\r\n", ".gitignore": "*.a\r\n*.b\r*.c\n", "tests/x.a": "", "tests/x.b": "", "tests/x.c": "", "tests/x.d": ""}),
		"nothing":                  {"other": ""},
		"ignored ignore file":      minimal(map[string]string{".gitignore": "tests\n!tests/test.sh\n", "tests/other": ""}),
		"harborignore is a link":   minimal(map[string]string{"tests/.harborignore": "-> ../solution/list", "solution/list": "x\n", "tests/x": "1"}),
		"harborignore from beyond": minimal(map[string]string{"tests/.harborignore": "-> /etc/hostname"}),
		"broken gitignore":         minimal(map[string]string{".gitignore": "!\n"}),
		"gitignore is a directory": minimal(map[string]string{".gitignore/": ""}),
		"excluded directory link":  minimal(map[string]string{"tests/.harborignore": "d/\n", "tests/d": "-> ../environment"}),
		"excluded root":            minimal(map[string]string{".gitignore": "/\n"}),
	}
}

// TestDigestIsHarbors hashes the same trees on both sides. The trees exist only
// while the test runs: git would not keep them as they are.
func TestDigestIsHarbors(t *testing.T) {
	h := startHarbor(t)
	for name, all := range digestTrees() {
		t.Run(name, func(t *testing.T) {
			dir := files(t, all)
			a := h.ask(t, question{Op: "dir", Path: dir})
			got, err := Digest(dir)
			if (a.DigestError == "") != (err == nil) || got != a.Digest {
				t.Errorf("harbor %s %s\nassay  %s %v", a.Digest, a.DigestError, got, err)
			}
			if _, err := Load(dir); a.Valid != (err == nil) {
				t.Errorf("harbor valid %v, assay %v", a.Valid, err)
			}
		})
	}
}

// Trees of random names, links and ignore files.
func TestDigestIsHarborsAtRandom(t *testing.T) {
	h := startHarbor(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	names := []string{"a", "b.txt", "c d", "é", "x.pyc", "tmp", "__pycache__", ".h", "z~"}
	patterns := []string{"a", "*.txt", "!b.txt", "/a", "a/", "**/tmp", "tmp/**", "*", "!*/", "[a-c]*", "c\\ d", "!a/b.txt", "z?", "#a", "../x"}
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	for range 150 {
		all := minimal(nil)
		for range r.IntN(14) {
			p := pick([]string{"tests", "solution", "environment", "steps/s/tests", "steps/s/workdir", "steps/s"})
			for range 1 + r.IntN(3) {
				p += "/" + pick(names)
			}
			if r.IntN(6) == 0 {
				all[p] = "-> " + pick([]string{"../test.sh", "a", "..", "/etc/hostname", "../../solution", "none"})
			} else {
				all[p] = fmt.Sprint(r.IntN(3))
			}
		}
		for _, at := range []string{"tests", "solution", "tests/a", "steps/s/tests", "environment", "."} {
			if r.IntN(3) == 0 {
				name := "/.harborignore"
				if at == "." {
					name = "/.gitignore"
				}
				for range 1 + r.IntN(3) {
					all[at+name] += pick(patterns) + "\n"
				}
			}
		}
		dir, ok := conflicting(t, all)
		if !ok {
			continue
		}
		a := h.ask(t, question{Op: "dir", Path: dir})
		got, err := Digest(dir)
		if (a.DigestError == "") != (err == nil) || got != a.Digest {
			t.Fatalf("seed %d: %v\nharbor %s %s\nassay  %s %v", seed, all, a.Digest, a.DigestError, got, err)
		}
		if _, err := Load(dir); a.Valid != (err == nil) {
			t.Fatalf("seed %d: %v\nharbor valid %v, assay %v", seed, all, a.Valid, err)
		}
	}
}

// conflicting makes a tree whose random names may be file and directory at
// once; such a tree is passed over.
func conflicting(t *testing.T, all map[string]string) (string, bool) {
	for name := range all {
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if _, ok := all[dir]; ok {
				return "", false
			}
		}
	}
	return files(t, all), true
}

// The rules by themselves, without Harbor at hand.
func TestDigestRules(t *testing.T) {
	hash := func(all map[string]string) string {
		t.Helper()
		d, err := Digest(files(t, all))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := hash(minimal(nil))
	for what, more := range map[string]map[string]string{
		"a root file":          {"LICENSE": "x"},
		"proof.json":           {"proof.json": "{}"},
		"an empty directory":   {"tests/empty/": ""},
		"a broken link":        {"tests/l": "-> nowhere"},
		"a link to a tree":     {"tests/l": "-> ../environment"},
		"a default ignore":     {"tests/__pycache__/a": "x", "environment/x.pyc": "y"},
		"an ignored test file": {"tests/.harborignore": "x\n", "tests/x": "1"},
	} {
		if got := hash(minimal(more)); got != base {
			t.Errorf("%s changes the digest", what)
		}
	}
	for what, more := range map[string]map[string]string{
		"a hidden file":          {"tests/.x": ""},
		"a file below steps":     {"steps/a/x": ""},
		"a link to a file":       {"tests/l": "-> test.sh"},
		"README.md":              {"README.md": ""},
		"an unobeyed ignore":     {"environment/.harborignore": "*\n", "environment/x": ""},
		"a root .gitignore":      {".gitignore": "", "environment/x.pyc": ""},
		"line ends":              {"instruction.md": "Do it.\r\n"},
		"a nested .gitignore":    {"tests/.gitignore": "*\n"},
		"a file of another name": {"solution/x": ""},
	} {
		if got := hash(minimal(more)); got == base {
			t.Errorf("%s does not change the digest", what)
		}
	}
}

// One digest by hand: lines of path, NUL, hash, line feed, in code point order.
func TestDigestByHand(t *testing.T) {
	dir := files(t, map[string]string{"task.toml": "a", "tests/a.txt": "b", "tests/a b": "c", "tests/é": "d"})
	sum := sha256.New()
	for _, f := range []struct{ path, content string }{{"task.toml", "a"}, {"tests/a b", "c"}, {"tests/a.txt", "b"}, {"tests/é", "d"}} {
		fmt.Fprintf(sum, "%s\x00%x\n", f.path, sha256.Sum256([]byte(f.content)))
	}
	want := fmt.Sprintf("sha256:%x", sum.Sum(nil))
	if got, err := Digest(dir); err != nil || got != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
	if err := os.Chmod(dir+"/tests/a.txt", 0o755); err != nil {
		t.Fatal(err)
	}
	if got, _ := Digest(dir); got != want {
		t.Error("modes must not count")
	}
}

func TestIgnoreDialects(t *testing.T) {
	for _, c := range []struct {
		text, path string
		basic, git bool
	}{
		{"a/\n!a/b\n", "a/b", false, false},
		{"!a/b\na/\n", "a/b", true, false}, // git: the file's own pattern beats the directory's
		{"/\n", "x", true, false},
		{"[a\n", "[a", true, false},
		{"foo/*\n", "foo/a/b", false, true},
		{"*.c\n", "d/x.c", true, true},
		{"/x\n", "d/x", false, false},
		{"a/**/b\n", "a/1/2/b", true, true},
		{"a\\ \n", "a ", true, true},
		{"a \n", "a", true, true},
		{"\\#a\n", "#a", true, true},
		{"#a\n", "#a", false, false},
		{"**\n", "a/b", true, true},
		{"x[!b]y\n", "x/y", true, true}, // as in pathspec, a class may match a slash
	} {
		for dialect, want := range map[ignoreDialect]bool{dialectBasic: c.basic, dialectGit: c.git} {
			s, err := parseIgnore(c.text, dialect)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := s.match(c.path); got != want {
				t.Errorf("dialect %d: %q of %q: %v, want %v", dialect, strings.TrimSpace(c.text), c.path, got, want)
			}
		}
	}
}
