package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/mirrors"
)

// A server that somebody configured and that does not answer is named with
// where it was configured.
func TestProbeMirrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	probe := func(text string, try bool) (ok bool, said string) {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "etc", "pip.conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f := probeMirrors(t.Context(), mirrors.Host{Root: root}, try)
		if !f.OK && (f.Means == "" || f.Remedy == "") {
			t.Errorf("%+v", f)
		}
		return f.OK, f.Detail
	}
	conf := func(a net.Addr) string { return fmt.Sprintf("[global]\nindex-url = http://%s/simple\n", a) }
	if ok, said := probe("", true); !ok || !strings.Contains(said, "public") {
		t.Errorf("nothing configured: %v %s", ok, said)
	}
	if ok, said := probe(conf(l.Addr()), true); !ok || !strings.Contains(said, "pip 127.0.0.1") {
		t.Errorf("one that answers: %v %s", ok, said)
	}
	if ok, said := probe(conf(closed.Addr()), true); ok || !strings.Contains(said, "/etc/pip.conf:2") || !strings.Contains(said, "does not answer") {
		t.Errorf("one that does not: %v %s", ok, said)
	}
	if ok, said := probe(conf(closed.Addr()), false); !ok {
		t.Errorf("nobody asked: %s", said)
	}
}
