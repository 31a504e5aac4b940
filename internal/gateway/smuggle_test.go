package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Nothing that is hidden in a request becomes one at the provider, and heads
// that two servers may read differently are refused.
func TestNoRequestIsSmuggled(t *testing.T) {
	var asked atomic.Int32
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != "/v1/chat/completions" {
			t.Errorf("the provider was asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	s := opened(t, gateway(t, Config{Limits: Limits{Header: 2 * time.Second}}), SessionConfig{Upstream: up})
	addr := relayed(t, s)
	line := "POST /s/" + s.ID() + "/v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.Key() + "\r\n"
	hidden := "POST /v1/files HTTP/1.1\r\nHost: x\r\n\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(question), question)
	for _, c := range []struct {
		name, raw string
		asked     int32
		want      string // of the first answer
	}{
		{"two lengths", line + "Content-Length: 5\r\nContent-Length: 69\r\n\r\n" + question, 0, "HTTP/1.1 400"},
		{"chunked and a length", line + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\nConnection: close\r\n\r\n" + chunked + hidden, 1, "HTTP/1.1 200"},
		{"an unknown encoding", line + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked, 0, "HTTP/1.1 501"},
		{"a head without end", line + strings.Repeat("X-A: b\r\n", 20000), 0, "HTTP/1.1 431"},
		{"a line feed in the path", "POST /s/" + s.ID() + "/v1/chat/completions%0d%0aX:%20y HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + s.Key() + "\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", 0, "HTTP/1.1 404"},
		{"a tunnel", "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", 0, "HTTP/1.1 401"},
		{"another host", "GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n", 0, "HTTP/1.1 401"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked.Store(0)
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			go io.WriteString(conn, c.raw) // the server may stop reading first
			head := make([]byte, len(c.want))
			if _, err := io.ReadFull(conn, head); err != nil || string(head) != c.want {
				t.Errorf("answered %q, %v", head, err)
			}
			_, _ = io.Copy(io.Discard, conn) // until it is closed, or refused for what follows
			if n := asked.Load(); n != c.asked {
				t.Errorf("the provider was asked %d times", n)
			}
		})
	}
}
