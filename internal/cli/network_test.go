package cli

import (
	"bufio"
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/job"
)

// The way out of a trial goes through a proxy behind TLS whose authority this
// machine's settings name.
func TestGateThroughProxyBehindTLS(t *testing.T) {
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer in.Close()
		io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\ncame to "+r.Host)
	}))
	defer up.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HTTPS_PROXY": up.URL, "PIP_CERT": ca, "HOME": dir}
	a := &app{World: World{Env: func(k string) (string, bool) { v, ok := env[k]; return v, ok }}}
	g, err := a.openGate(job.EgressRequest{Ledger: filepath.Join(dir, "agent", "egress.ndjson")})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.Allow("agent", []string{"good.example"}, nil); err != nil {
		t.Fatal(err)
	}
	inside, host := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); g.Proxy(context.Background(), host) }()
	defer func() { inside.Close(); <-done }()
	if _, err := io.WriteString(inside, "CONNECT good.example:443 HTTP/1.1\r\nHost: good.example:443\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(inside)
	head, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		t.Fatalf("%q, %v", head, err)
	}
	b := make([]byte, len("\r\ncame to good.example:443")) // a pipe's end is not told apart from a quiet one
	if _, err := io.ReadFull(r, b); err != nil || string(b) != "\r\ncame to good.example:443" {
		t.Errorf("%q, %v", b, err)
	}
}
