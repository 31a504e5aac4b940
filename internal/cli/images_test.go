package cli

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	goreg "github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"
)

// newRegistry is a real registry on loopback, empty; its HOST:PORT.
func newRegistry(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(goreg.New(goreg.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// smallRootfs is a tree with this machine's shell, what it is linked with, and
// nothing else.
func smallRootfs(t *testing.T) string {
	t.Helper()
	root := scratch(t)
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	put := func(from, to string) {
		t.Helper()
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(sh, "/bin/sh")
	out, err := exec.Command("ldd", sh).Output()
	if err != nil && !strings.Contains(string(out), "not a dynamic executable") {
		t.Fatal(err)
	}
	for _, lib := range regexp.MustCompile(`/\S+`).FindAllString(string(out), -1) {
		put(lib, lib)
	}
	return root
}

// expand FILE… replaces ${NAME} in files by the script's variables.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: expand FILE...")
	}
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), func(v string) string { return ts.Getenv(v) })
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
}
