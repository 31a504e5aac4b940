package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files makes a directory; a name that ends with "/" is a directory, content
// that begins with "-> " a link.
func files(t testing.TB, all map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "task")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range all {
		path := dir + "/" + name
		var err error
		switch target, link := strings.CutPrefix(content, "-> "); {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case link:
			os.MkdirAll(filepath.Dir(path), 0o755)
			err = os.Symlink(target, path)
		default:
			os.MkdirAll(filepath.Dir(path), 0o755)
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// minimal is the smallest valid task; more adds to it or, with "!", removes.
func minimal(more map[string]string) map[string]string {
	all := map[string]string{
		"task.toml":              "",
		"instruction.md":         "Do it.\n",
		"environment/Dockerfile": "FROM debian@sha256:" + strings.Repeat("0", 64) + "\n",
		"tests/test.sh":          "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n",
		"solution/solve.sh":      "#!/bin/sh\n",
	}
	for name, content := range more {
		if gone, ok := strings.CutPrefix(name, "!"); ok {
			delete(all, gone)
			continue
		}
		all[name] = content
	}
	return all
}
