package egress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// names is a resolver with answers of the test's own; each call takes the next
// one, the last stays.
type names struct {
	mu    sync.Mutex
	table map[string][]string
	asked []string
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	host = strings.TrimSuffix(host, ".")
	n.asked = append(n.asked, host)
	list := n.table[host]
	if len(list) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(list) > 1 {
		n.table[host] = list[1:]
	}
	var out []netip.Addr
	for _, s := range strings.Fields(list[0]) {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, nil
}

// world is a gate whose public addresses all lead to one server of the test.
type world struct {
	g      *Gate
	names  *names
	ledger bytes.Buffer
	server *httptest.Server
	mu     sync.Mutex
	dialed []string
}

func newWorld(t *testing.T, rules []string, change ...func(*Config)) *world {
	t.Helper()
	w := &world{names: &names{table: map[string][]string{
		"good.example": {"198.41.0.4"}, "other.example": {"198.41.0.5"}, "sub.good.example": {"198.41.0.6"},
		"meta.example": {"169.254.169.254"}, "inside.example": {"10.0.0.7"}, "mapped.example": {"::ffff:127.0.0.1"},
		"nat64.example": {"64:ff9b::a9fe:a9fe"}, "mixed.example": {"10.0.0.7 198.41.0.4"},
		"rebind.example": {"198.41.0.4", "127.0.0.1"},
	}}}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(rw, r, "http://169.254.169.254/latest", http.StatusFound)
		default:
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(rw, "%s %s %q %s", r.Method, r.Host, b, r.Header.Get("Proxy-Authorization"))
		}
	}))
	t.Cleanup(w.server.Close)
	parsed, err := ParseRules(rules, true)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Rules: parsed, Resolver: w.names, Ledger: NewLedger(&w.ledger, 0), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		w.mu.Lock()
		w.dialed = append(w.dialed, addr)
		w.mu.Unlock()
		return (&net.Dialer{}).DialContext(ctx, "tcp", w.server.Listener.Addr().String())
	}}
	for _, f := range change {
		f(&c)
	}
	w.g = New(c)
	t.Cleanup(func() { w.g.Close() })
	return w
}

// program is one connection from inside the sandbox.
func (w *world) program(t *testing.T) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	host, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); w.g.Proxy(context.Background(), host) }()
	in.SetDeadline(time.Now().Add(time.Minute)) // a hang is a failure
	t.Cleanup(func() { in.Close(); <-done })
	return in
}

// say sends raw bytes and returns the first line of the answer.
func (w *world) say(t *testing.T, text string) string {
	t.Helper()
	c := w.program(t)
	io.WriteString(c, text)
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}

func (w *world) client(t *testing.T) *http.Client {
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}),
		DialContext: func(context.Context, string, string) (net.Conn, error) { return w.program(t), nil }}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func (w *world) lines(t *testing.T) []Entry {
	t.Helper()
	if err := w.g.Close(); err != nil {
		t.Fatal(err)
	}
	var out []Entry
	d := json.NewDecoder(&w.ledger)
	for {
		var e Entry
		if err := d.Decode(&e); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
}

func TestConnect(t *testing.T) {
	w := newWorld(t, []string{"good.example:443", "*.good.example"})
	c := w.program(t)
	fmt.Fprintf(c, "CONNECT good.example:443 HTTP/1.1\r\nHost: good.example:443\r\n\r\n")
	br := bufio.NewReader(c)
	if line, _ := br.ReadString('\n'); !strings.Contains(line, " 200 ") {
		t.Fatal(line)
	}
	br.ReadString('\n')
	fmt.Fprintf(c, "GET /x HTTP/1.0\r\nHost: good.example\r\n\r\n")
	body, _ := io.ReadAll(br)
	if !strings.Contains(string(body), `GET good.example ""`) {
		t.Errorf("%s", body)
	}
	c.Close()
	if got := w.say(t, "CONNECT good.example:80 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, " 403 ") {
		t.Errorf("another port: %s", got)
	}
	lines := w.lines(t)
	if len(lines) != 2 {
		t.Fatalf("%+v", lines)
	}
	for _, e := range lines {
		if e.Port == 443 && (e.Verdict != Allowed || e.Addr != "198.41.0.4:443" || e.Sent == 0 || e.Received == 0 || e.Rule != "good.example:443" || e.End.Before(e.Begin)) {
			t.Errorf("%+v", e)
		}
		if e.Port == 80 && e.Verdict != Refused {
			t.Errorf("%+v", e)
		}
	}
}

func TestPlainHTTP(t *testing.T) {
	w := newWorld(t, []string{"good.example"})
	const requests = 20
	for i := range requests {
		res, err := w.client(t).Post("http://good.example/up", "text/plain", strings.NewReader("body"+strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if string(b) != fmt.Sprintf(`POST good.example "body%d" `, i) {
			t.Errorf("%s", b)
		}
	}
	lines := w.lines(t)
	if len(lines) != requests {
		t.Fatalf("%+v", lines)
	}
	for _, e := range lines {
		if e.Via != ViaHTTP || e.Verdict != Allowed || e.Addr != "198.41.0.4:80" || e.Sent < 5 || e.Received < 20 {
			t.Errorf("%+v", e)
		}
	}
	if n := len(w.dialed); n == requests { // each might come before the last one's connection is free again
		t.Errorf("%d connections for %d requests that could share some", n, requests)
	}
}

// What is not public is refused, whatever it is called.
func TestRefused(t *testing.T) {
	w := newWorld(t, []string{"*", "meta.example", "inside.example", "mapped.example", "nat64.example", "0.0.0.0/0", "::/0"})
	for _, host := range []string{
		"meta.example", "inside.example", "mapped.example", "nat64.example", "169.254.169.254", "127.0.0.1", "10.1.2.3",
		"[::1]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[64:ff9b::7f00:1]", "[fd00:ec2::254]", "[2002:7f00:1::]", "[fe80::1]",
		"0.0.0.0", "[::]", "100.100.100.200", "168.63.129.16", "224.0.0.1", "255.255.255.255", "192.168.0.1", "198.18.0.1",
		"2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.1.", "017700000001", "127.0.0.0x1", "[::1%25lo]", "[fe80::1%25eth0]",
	} {
		if got := w.say(t, "CONNECT "+host+":443 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, " 403 ") && !strings.Contains(got, " 400 ") {
			t.Errorf("CONNECT %s: %q", host, got)
		}
		if got := w.say(t, "GET http://"+host+"/ HTTP/1.1\r\nHost: good.example\r\n\r\n"); !strings.Contains(got, " 403 ") && !strings.Contains(got, " 400 ") {
			t.Errorf("GET %s: %q", host, got)
		}
	}
	if len(w.dialed) > 0 {
		t.Errorf("dialled %v", w.dialed)
	}
}

// The address that was judged is the one that is dialled, and a second answer is
// judged anew.
func TestRebinding(t *testing.T) {
	w := newWorld(t, []string{"rebind.example", "mixed.example"})
	if got := w.say(t, "CONNECT rebind.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, " 200 ") {
		t.Error(got)
	}
	if got := w.say(t, "CONNECT rebind.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, " 403 ") {
		t.Error(got)
	}
	if got := w.say(t, "CONNECT mixed.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, " 200 ") {
		t.Error(got)
	}
	for _, a := range w.dialed {
		if a != "198.41.0.4:443" {
			t.Errorf("dialled %s", a)
		}
	}
}

func TestUnknownNamesAreNotAsked(t *testing.T) {
	w := newWorld(t, []string{"good.example"})
	w.say(t, "CONNECT secret-data.evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := w.g.Lookup(t.Context(), "other.evil.example"); err == nil {
		t.Error("looked up")
	}
	if len(w.names.asked) > 0 {
		t.Errorf("asked for %v", w.names.asked)
	}
	if a, err := w.g.Lookup(t.Context(), "GOOD.example."); err != nil || len(a) != 1 {
		t.Errorf("%v %v", a, err)
	}
}

func TestRedirect(t *testing.T) {
	w := newWorld(t, []string{"good.example"})
	res, err := w.client(t).Get("http://good.example/redirect")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusForbidden || res.Header.Get("X-Assay-Egress") != "refused" {
		t.Errorf("%s", res.Status)
	}
}

// A Host header says nothing, two lengths are not passed on, heads end.
func TestMalformedRequests(t *testing.T) {
	w := newWorld(t, []string{"good.example"})
	c := w.program(t)
	fmt.Fprintf(c, "POST http://good.example/ HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://other.example/smuggled HTTP/1.1\r\nHost: other.example\r\n\r\n")
	b, _ := io.ReadAll(c)
	if strings.Contains(string(b), "other.example") || strings.Contains(string(b), "smuggled") {
		t.Errorf("%s", b)
	}
	if got := w.say(t, "GET http://good.example/ HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n"); !strings.Contains(got, " 431 ") {
		t.Errorf("a head of a megabyte: %q", got)
	}
	for _, line := range []string{"GET / HTTP/1.1", "GET https://good.example/ HTTP/1.1", "CONNECT good.example HTTP/1.1", "CONNECT :443 HTTP/1.1", "CONNECT good.example:99999 HTTP/1.1", "CONNECT good.example:0 HTTP/1.1", "\x16\x03\x01"} {
		if got := w.say(t, line+"\r\nHost: good.example\r\n\r\n"); strings.Contains(got, " 200 ") {
			t.Errorf("%q: %s", line, got)
		}
	}
}

func TestSlowHead(t *testing.T) {
	w := newWorld(t, []string{"good.example"}, func(c *Config) { c.Caps.Header = 50 * time.Millisecond })
	for _, begin := range []string{"", "GET http://good.ex", "\x05", "\x05\x01\x00\x05\x01"} {
		c := w.program(t)
		io.WriteString(c, begin)
		_, _ = io.ReadAll(c) // ends with the connection; the program's deadline is the failure
		if _, err := c.Write([]byte("x")); err != nil {
			continue
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%q: still open: %v", begin, err)
		}
	}
}

func TestCaps(t *testing.T) {
	const ask = "CONNECT good.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"
	w := newWorld(t, []string{"good.example"}, func(c *Config) { c.Caps.Conns, c.Caps.Connect = 1, 300*time.Millisecond })
	c := w.program(t)
	io.WriteString(c, ask)
	if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, " 200 ") {
		t.Fatal(line)
	}
	if got := w.say(t, ask); !strings.Contains(got, " 503 ") {
		t.Errorf("two at once: %s", got)
	}
	// It waits for the first to end.
	waits := newWorld(t, []string{"good.example"}, func(c *Config) { c.Caps.Conns = 1 })
	c = waits.program(t)
	io.WriteString(c, ask)
	if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, " 200 ") {
		t.Fatal(line)
	}
	first := c
	time.AfterFunc(50*time.Millisecond, func() { first.Close() })
	if got := waits.say(t, ask); !strings.Contains(got, " 200 ") {
		t.Errorf("after another: %s", got)
	}
	// A server that never ends its side keeps no place of a program that is gone.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	left := newWorld(t, []string{"good.example"}, func(c *Config) {
		c.Caps.Conns, c.Caps.Connect, c.Caps.Idle = 1, 3*time.Second, 5*time.Second
		c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, mute.Addr().String())
		}
	})
	c = left.program(t)
	io.WriteString(c, ask)
	if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, " 200 ") {
		t.Fatal(line)
	}
	c.Close()
	c = left.program(t)
	io.WriteString(c, ask)
	if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, " 200 ") {
		t.Errorf("after one that is gone: %s", line)
	}
	few := newWorld(t, []string{"good.example"}, func(c *Config) { c.Caps.Bytes = 10 })
	few.say(t, "GET http://good.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
	if got := few.say(t, "CONNECT good.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, " 403 ") {
		t.Errorf("past the bytes: %s", got)
	}
}

func TestSOCKS(t *testing.T) {
	w := newWorld(t, []string{"good.example"})
	ask := func(host string, port uint16) (byte, net.Conn) {
		c := w.program(t)
		c.Write([]byte{5, 1, 0})
		var b [10]byte
		io.ReadFull(c, b[:2])
		c.Write(append(append([]byte{5, 1, 0, 3, byte(len(host))}, host...), byte(port>>8), byte(port)))
		if _, err := io.ReadFull(c, b[:]); err != nil {
			t.Fatal(err)
		}
		return b[1], c
	}
	code, c := ask("good.example", 80)
	if code != socksOK {
		t.Fatal(code)
	}
	fmt.Fprintf(c, "GET / HTTP/1.0\r\nHost: good.example\r\n\r\n")
	if b, _ := io.ReadAll(c); !strings.Contains(string(b), "GET good.example") {
		t.Errorf("%s", b)
	}
	for _, host := range []string{"meta.example", "169.254.169.254", "2130706433", "other.example"} {
		if code, _ := ask(host, 80); code != socksNotAllowed {
			t.Errorf("%s: %d", host, code)
		}
	}
}

// Behind an upstream proxy names go to it, and so does its password, which no
// program sees.
func TestUpstream(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if r.Method == http.MethodConnect {
			c, _, _ := http.NewResponseController(w).Hijack()
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nspoken first")
			c.Close()
			return
		}
		io.WriteString(w, "by the upstream")
	}))
	defer up.Close()
	u := strings.Replace(up.URL, "http://", "http://user:pass@", 1)
	upstream, err := NewUpstream(u, u, "direct.example")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, []string{"unknown.example", "meta.example"}, func(c *Config) {
		c.Upstream, c.Dial = upstream, nil
	})
	res, err := w.client(t).Get("http://unknown.example/a")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if string(b) != "by the upstream" {
		t.Errorf("%s", b)
	}
	c := w.program(t)
	fmt.Fprintf(c, "CONNECT unknown.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	if b, _ := io.ReadAll(c); !strings.HasSuffix(string(b), "\r\n\r\nspoken first") {
		t.Errorf("%q", b)
	}
	if got := w.say(t, "CONNECT meta.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, " 403 ") {
		t.Errorf("metadata by an upstream: %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 2 || !strings.HasPrefix(asked[0], "GET http://unknown.example/a Basic ") || !strings.HasPrefix(asked[1], "CONNECT unknown.example:443 Basic ") {
		t.Errorf("%q", asked)
	}
}

// The operator can name what is not public; a task cannot.
func TestNamed(t *testing.T) {
	w := newWorld(t, []string{"inside.example@private", "169.254.169.254:80", "10.1.0.0/16"})
	for host, want := range map[string]string{"inside.example:443": " 200 ", "169.254.169.254:80": " 200 ", "169.254.169.254:443": " 403 ", "10.1.2.3:1": " 200 ", "10.2.2.3:1": " 403 "} {
		if got := w.say(t, "CONNECT "+host+" HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", host, got)
		}
	}
	rules, err := ParseRules([]string{"inside.example@private", "169.254.169.254:80", "10.1.0.0/16"}, false)
	if err != nil {
		t.Fatal(err)
	}
	w.g.Allow("verifier", rules, false)
	for _, host := range []string{"inside.example:443", "169.254.169.254:80", "10.1.2.3:1"} {
		if got := w.say(t, "CONNECT "+host+" HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, " 403 ") {
			t.Errorf("a task's rule, %s: %s", host, got)
		}
	}
}

func TestLedgerIsBounded(t *testing.T) {
	var b bytes.Buffer
	l := NewLedger(&b, 1000)
	for range 100 {
		l.add(Entry{Via: ViaTCP, Host: "x", Verdict: Refused})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if got := l.Totals(); b.Len() > 1100 || got.Refused != 100 || lines[len(lines)-1] != fmt.Sprintf(`{"unwritten":%d}`, got.Unwritten) || got.Unwritten != int64(100-len(lines)+1) {
		t.Errorf("%d bytes, %+v", b.Len(), got)
	}
}

func FuzzRule(f *testing.F) {
	for _, s := range []string{"pypi.org", "*.pypi.org:443", "10.0.0.0/8", "[2001:db8::1]:80", "2001:db8::/32", "mirror@private", "[2001:db8::/32]:1", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRule(s)
		if err != nil {
			return
		}
		if (r.Name == "") == !r.Prefix.IsValid() {
			t.Fatalf("%q became %+v", s, r)
		}
		if again, err := ParseRule(r.String()); err != nil || again != r {
			t.Errorf("%q became %q, which is %+v, %v", s, r.String(), again, err)
		}
	})
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"good.example:443", "[::1]:80", "127.1:1", "0x7f.1:1", "[fe80::1%25lo]:1"} {
		f.Add(s)
	}
	g := New(Config{All: true, Resolver: &names{}})
	f.Fuzz(func(t *testing.T, s string) {
		target, err := targetOf(s, "80")
		if err != nil {
			return
		}
		if target.Addr.IsValid() {
			if _, err := g.judge(g.policy.Load(), target.Addr, target.Port); err == nil && !embedded(target.Addr).IsGlobalUnicast() {
				t.Errorf("%q: %s is allowed", s, target.Addr)
			}
		} else if ip := net.ParseIP(target.Name); ip != nil || isNumber(target.Name[strings.LastIndexByte(target.Name, '.')+1:]) {
			t.Errorf("%q: the name %q is an address", s, target.Name)
		}
	})
}

func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x01a\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x04aaaaaaaaaaaaaaaa\x00\x50"))
	f.Fuzz(func(t *testing.T, b []byte) {
		target, _, err := readSOCKS(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(b), io.Discard})
		if err == nil && (target.Port == 0 || (target.Name == "") == !target.Addr.IsValid()) {
			t.Errorf("%+v", target)
		}
	})
}
