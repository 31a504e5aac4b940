package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/store"
	"assay/trial"
)

// served is a handler over one fixture job named demo, whose events come from
// a channel.
func served(t *testing.T, feed <-chan trial.Event) (*Handler, *Job) {
	t.Helper()
	root := t.TempDir()
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "demo")
	j := fixtureJob(t, dir, 3, 1, true)
	j.State = StateRunning
	h, err := newHandler(root, source{
		list: func(root string) ([]store.Summary, error) {
			return []store.Summary{{Dir: dir, Name: "demo", State: store.Running, Planned: 9}}, nil
		},
		read: func(d string) (*Job, error) {
			if d != dir {
				return nil, os.ErrNotExist
			}
			return j, nil
		},
		follow: func(ctx context.Context, d string, since uint64, f func(trial.Event) error) error {
			for {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case e, ok := <-feed:
					if !ok {
						return nil
					}
					if e.Seq <= since {
						continue
					}
					if err := f(e); err != nil {
						return err
					}
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, j
}

func get(t *testing.T, h http.Handler, target string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", target, nil)
	r.Host = "127.0.0.1:7777"
	for _, f := range edit {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPagesAreServed(t *testing.T) {
	h, j := served(t, nil)
	tr := j.Trials[0]
	for _, c := range []struct{ target, want string }{
		{"/", "demo"},
		{"/job/demo", "Pass rate and interval"},
		{"/job/demo/trial/" + tr.Name, "20 passed in 0.38s"},
	} {
		w := get(t, h, c.target)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html; charset=utf-8") {
			t.Errorf("%s: %d %s", c.target, w.Code, w.Header().Get("Content-Type"))
			continue
		}
		m := checkPage(t, w.Body.String())
		if !strings.Contains(m.text.String(), c.want) {
			t.Errorf("%s does not say %q", c.target, c.want)
		}
		if m.raw["style"] != "" || m.raw["script"] != "" {
			t.Errorf("%s has style or script in the page; the policy forbids it", c.target)
		}
		for _, link := range m.hrefs {
			if strings.HasPrefix(link, "#") {
				continue
			}
			if code := get(t, h, link).Code; code != 200 {
				t.Errorf("%s leads to %s: %d", c.target, link, code)
			}
		}
	}
}

func TestFiltersWorkWithoutScript(t *testing.T) {
	h, j := served(t, nil)
	for query, want := range map[string]func(*Trial) bool{
		"agent=nop":                     func(t *Trial) bool { return t.Agent == "nop" },
		"task=repair-nginx-config":      func(t *Trial) bool { return t.Task == "repair-nginx-config" },
		"outcome=pass&agent=oracle":     func(t *Trial) bool { return t.Agent == "oracle" },
		"cause=unsolved":                func(t *Trial) bool { return t.Cause == trial.CauseUnsolved },
		"q=NGINX+nop":                   func(t *Trial) bool { return t.Task == "repair-nginx-config" && t.Agent == "nop" },
		"q=no+such+word":                func(*Trial) bool { return false },
		"agent=%22%3E%3Cscript%3Ealert": func(*Trial) bool { return false },
	} {
		page := get(t, h, "/job/demo?"+query).Body.String()
		m := checkPage(t, page)
		list := page[strings.Index(page, `id="list"`):]
		for _, tr := range j.Trials {
			if shown := strings.Contains(list, ">"+tr.Name+"<"); shown != want(tr) {
				t.Errorf("%s: %s by %s shown: %v", query, tr.Task, tr.Agent, shown)
			}
		}
		if m.tags["script"] != 1 {
			t.Errorf("%s: %d scripts", query, m.tags["script"])
		}
	}
	frag := get(t, h, "/job/demo?fragment=1&agent=nop").Body.String()
	if strings.Contains(frag, "<html") || !strings.Contains(frag, `id="rows"`) || !strings.Contains(frag, `id="live"`) {
		t.Errorf("fragment: %.200s", frag)
	}
}

func TestOnlyThisMachineIsAnswered(t *testing.T) {
	h, _ := served(t, nil)
	for host, ok := range map[string]bool{
		"127.0.0.1:80": true, "localhost:1": true, "LOCALHOST": true, "[::1]:9": true, "127.8.8.8": true,
		"evil.example": false, "evil.example:7777": false, "localhost.evil.example": false, "192.168.1.2": false, "": false, "0.0.0.0:1": false,
	} {
		w := get(t, h, "/job/demo", func(r *http.Request) { r.Host = host })
		if got := w.Code == 200; got != ok {
			t.Errorf("Host %q: %d", host, w.Code)
		}
		if strings.Contains(w.Body.String(), "nginx") != ok {
			t.Errorf("Host %q: the body tells too much or too little", host)
		}
	}
	w := get(t, h, "/job/demo", func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", "no-cors")
	})
	if w.Code != http.StatusForbidden {
		t.Errorf("a cross-site request: %d", w.Code)
	}
	csp := get(t, h, "/").Header().Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
		t.Errorf("policy %q", csp)
	}
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		if w := get(t, h, "/job/demo", func(r *http.Request) { r.Method = method }); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

func TestNothingOutsideIsServed(t *testing.T) {
	h, j := served(t, nil)
	root := h.root
	tr := j.Trials[0]
	put(t, root, "secret.txt", "hunter2")
	put(t, filepath.Join(root, ".hidden"), "x", "hunter2")
	for name, to := range map[string]string{"abs.txt": filepath.Join(root, "secret.txt"), "rel.txt": "../../secret.txt", "up": ".."} {
		if err := os.Symlink(to, filepath.Join(tr.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Dir(root), filepath.Join(root, "linked")); err != nil {
		t.Fatal(err)
	}
	base := "/job/demo/trial/" + tr.Name + "/file/"
	for _, target := range []string{
		base + "abs.txt", base + "rel.txt", base + "..%2f..%2fsecret.txt", base + "up%2f..%2fsecret.txt", base + "%2fetc%2fpasswd",
		base, base + "agent", "/job/..", "/job/..%2f..", "/job/%2fetc", "/job/linked", "/job/.hidden", "/job/demo%2f..%2f..%2fetc",
		"/job/demo/trial/..", "/job/demo/trial/..%2f..", "/job/nothing", "/assets/..%2fweb.go", "/assets/job.html", "/secret.txt",
	} {
		w := get(t, h, target)
		if w.Code == 200 || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%s: %d %.100s", target, w.Code, w.Body)
		}
	}
	w := get(t, h, base+"agent/workspace.diff")
	if w.Code != 200 || w.Body.String() != fixtureDiff || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" ||
		w.Header().Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("raw file: %d %v", w.Code, w.Header())
	}
}

func TestServeKeepsToLoopback(t *testing.T) {
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Skipf("cannot listen on all addresses: %v", err)
	}
	if err := Serve(t.Context(), ln, http.NotFoundHandler()); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("error %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is still open: %v", err)
	}
}

func TestEventsAreStreamed(t *testing.T) {
	feed := make(chan trial.Event)
	h, j := served(t, feed)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- Serve(ctx, ln, h) }()

	res, err := http.Get("http://" + ln.Addr().String() + "/job/demo/events?since=1&trial=" + j.Trials[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if ct := res.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("content type %q", ct)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(res.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	next := func(prefix string) string {
		t.Helper()
		for {
			select {
			case l, ok := <-lines:
				if !ok {
					t.Fatalf("the stream ended before %q", prefix)
				}
				if strings.HasPrefix(l, prefix) {
					return strings.TrimPrefix(l, prefix)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("no line %q", prefix)
			}
		}
	}
	next("retry: ")
	feed <- trial.Event{V: 1, Seq: 1, Kind: trial.TrialStarted, Trial: j.Trials[0].Name} // known already
	feed <- trial.Event{V: 1, Seq: 2, Kind: trial.TrialStarted, Trial: "another"}
	feed <- trial.Event{V: 1, Seq: 3, Kind: trial.Noted, Trial: j.Trials[0].Name, Data: json.RawMessage(`{"text":"a\n\nb"}`)}
	if id := next("id: "); id != "3" {
		t.Errorf("first id %s", id)
	}
	var e trial.Event
	if err := json.Unmarshal([]byte(next("data: ")), &e); err != nil || e.Kind != trial.Noted {
		t.Errorf("event %+v, %v", e, err)
	}
	close(feed)
	if kind := next("event: "); kind != "end" {
		t.Errorf("last event %q", kind)
	}
	cancel()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the server does not stop")
	}
	io.Copy(io.Discard, res.Body)
}

func TestAnOpenStreamDoesNotHoldTheServer(t *testing.T) {
	h, _ := served(t, make(chan trial.Event))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- Serve(ctx, ln, h) }()
	res, err := http.Get("http://" + ln.Addr().String() + "/job/demo/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	cancel()
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Fatal("the server waits for the stream")
	}
	if w := get(t, h, "/job/demo/events?since=x"); w.Code != http.StatusBadRequest {
		t.Errorf("since=x: %d", w.Code)
	}
}
