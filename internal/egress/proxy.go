package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	"assay/internal/inlet"
)

// maxHeader bounds a request's head and a proxy's answer.
const maxHeader = 64 << 10

// Proxy serves one connection of a program: HTTP, or SOCKS 5 if it begins so.
func (g *Gate) Proxy(ctx context.Context, c net.Conn) {
	if !g.enter() {
		c.Close()
		return
	}
	defer g.open.Done()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer context.AfterFunc(g.ctx, func() { c.Close() })()
	first := make([]byte, 1)
	_ = c.SetReadDeadline(time.Now().Add(g.conf.Caps.Header)) // a connection without deadlines ends with ctx
	if _, err := io.ReadFull(c, first); err != nil {
		c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	p := &peeked{Conn: c, head: first}
	if first[0] == socksVersion {
		g.socks(ctx, p)
		return
	}
	done := &watched{inlet.Watch(p)}
	if g.http.in.Hand(done) {
		<-done.Closed()
	} else {
		c.Close()
	}
}

// watched tells when somebody closed it, and can end one direction.
type watched struct{ *inlet.Conn }

func (w *watched) CloseWrite() error { return w.Conn.Conn.(*peeked).CloseWrite() }

// httpProxy is a server of net/http whose connections come from Proxy: its
// limits and its strictness about malformed requests are ours.
type httpProxy struct {
	g      *Gate
	server *http.Server
	in     *inlet.Inlet
	direct *http.Transport
	served sync.WaitGroup
}

func newHTTPProxy(g *Gate) *httpProxy {
	p := &httpProxy{g: g, in: inlet.New()}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: g.conf.Caps.Header, IdleTimeout: g.conf.Caps.Idle,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0), // a program's malformed requests are its own affair
	}
	p.direct = &http.Transport{
		Proxy: p.upstream, DialContext: p.dial, DisableCompression: true, MaxResponseHeaderBytes: 1 << 20,
		IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8, MaxIdleConns: 32,
		TLSClientConfig: &tls.Config{RootCAs: g.roots(), MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: g.conf.Caps.Connect,
	}
	p.served.Go(func() { _ = p.server.Serve(p.in) }) // ends with close
	return p
}

func (p *httpProxy) close() {
	p.server.Close()
	p.direct.CloseIdleConnections()
	p.served.Wait()
}

func (p *httpProxy) forget() { p.direct.CloseIdleConnections() }

func (p *httpProxy) serve(w http.ResponseWriter, r *http.Request) {
	if !p.g.enter() { // its line of the ledger is waited for
		panic(http.ErrAbortHandler)
	}
	defer p.g.open.Done()
	if r.Method == http.MethodConnect {
		p.tunnel(w, r)
		return
	}
	if r.URL.Scheme != "http" || r.URL.Host == "" {
		http.Error(w, "assay: this is a proxy: ask for http://HOST/PATH, or CONNECT HOST:PORT", http.StatusBadRequest)
		return
	}
	q := &request{entry: Entry{Begin: time.Now().UTC(), Phase: p.g.policy.Load().phase, Via: ViaHTTP, Verdict: Allowed}}
	port := "80"
	if to := p.g.rewritten(r.URL); to != nil {
		q.entry.Asked, q.tls, q.user = clip(r.URL.Host), to.Scheme == "https", to.User
		to.User = nil
		if r.URL = to; q.tls {
			port = "443"
		}
	}
	t, err := targetOf(r.URL.Host, port)
	if err != nil {
		p.refuseMalformed(w, ViaHTTP, r.URL.Host, err)
		return
	}
	q.target, q.entry.Host, q.entry.Port = t, clip(t.host()), t.Port
	p.forward(w, r, q)
}

// rewritten is where a request goes instead; nil: where it says. A rule may
// name the place that was asked for all the same.
func (g *Gate) rewritten(u *url.URL) *url.URL {
	if g.conf.Rewrite == nil {
		return nil
	}
	to := g.conf.Rewrite(u)
	if to == nil || to.Scheme != "http" && to.Scheme != "https" {
		return nil
	}
	c := *to
	return &c
}

// roots are the authorities of the TLS that the gate itself speaks.
func (g *Gate) roots() *x509.CertPool {
	if g.conf.Roots == nil && g.conf.Upstream != nil {
		return g.conf.Upstream.Roots
	}
	return g.conf.Roots
}

// targetOf reads HOST or HOST:PORT.
func targetOf(hostport, defaultPort string) (Target, error) {
	u := url.URL{Host: hostport}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Target{}, errors.New("no port")
	}
	host := u.Hostname()
	if host == "" {
		return Target{}, errors.New("no host")
	}
	return ParseTarget(host, uint16(n))
}

func (p *httpProxy) refuseMalformed(w http.ResponseWriter, via Via, host string, err error) {
	now := time.Now().UTC()
	p.g.ledger.add(Entry{Begin: now, Phase: p.g.policy.Load().phase, Via: via, Host: clip(host), Verdict: Refused, Why: err.Error()})
	p.answer(w, refusal("%q: %v", clip(host), err))
}

func (p *httpProxy) answer(w http.ResponseWriter, err error) {
	s := status(err)
	text := "assay: cannot connect: "
	if s == http.StatusForbidden {
		w.Header().Set("X-Assay-Egress", "refused")
		text = "assay: refused by the egress rules: "
	}
	w.Header().Set("Connection", "close")
	http.Error(w, text+err.Error(), s)
}

// tunnel serves CONNECT.
func (p *httpProxy) tunnel(w http.ResponseWriter, r *http.Request) {
	t, err := targetOf(r.Host, "")
	if err != nil {
		p.refuseMalformed(w, ViaConnect, r.Host, err)
		return
	}
	out, err := p.g.Connect(r.Context(), ViaConnect, t)
	if err != nil {
		p.answer(w, err)
		return
	}
	inside, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		out.Close()
		return
	}
	if n := buf.Reader.Buffered(); n > 0 { // a client that does not wait for the answer
		head, _ := buf.Reader.Peek(n) // they are there
		inside = &ahead{Conn: inside, peeked: peeked{Conn: inside, head: head}}
	}
	if _, err := io.WriteString(inside, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		inside.Close()
		out.Close()
		return
	}
	out.Join(p.g.ctx, inside)
}

// ahead is a connection some of whose bytes were read already.
type ahead struct {
	net.Conn
	peeked peeked
}

func (a *ahead) Read(b []byte) (int, error) { return a.peeked.Read(b) }
func (a *ahead) CloseWrite() error          { return a.peeked.CloseWrite() }

type requestKey struct{}

// request is one plain request on its way; the transport may take a connection
// of an earlier one for it.
type request struct {
	target Target
	tls    bool          // to the target; only where it was rewritten
	user   *url.Userinfo // of the rewritten URL
	entry  Entry
	mu     sync.Mutex
	conn   *Conn
	sent   int64 // of conn before this request
	recvd  int64
	err    error // of Connect
}

// took notes the connection that the request goes by.
func (q *request) took(c net.Conn) {
	out, ok := c.(*Conn)
	if !ok {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settle()
	q.conn, q.sent, q.recvd = out, out.sent.Load(), out.received.Load()
	q.entry.Addr, q.entry.Rule, q.entry.Upstream = out.entry.Addr, out.entry.Rule, out.entry.Upstream
}

// settle adds what moved on the connection so far.
func (q *request) settle() {
	if q.conn != nil {
		q.entry.Sent += q.conn.sent.Load() - q.sent
		q.entry.Received += q.conn.received.Load() - q.recvd
		q.conn = nil
	}
}

// forward serves a request for an absolute URL.
func (p *httpProxy) forward(w http.ResponseWriter, r *http.Request, q *request) {
	t := q.target
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.settle()
		p.g.ledger.add(q.entry)
	}()
	// An open connection may be used again, but not past the rules of today.
	if err := p.g.permits(t); err != nil {
		q.entry.Verdict, q.entry.Why = Refused, err.Error()
		p.answer(w, err)
		return
	}
	ctx := context.WithValue(r.Context(), requestKey{}, q)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { q.took(i.Conn) }})
	(&httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.Host = "" // the URL's, whatever a Host header says
			pr.Out.URL.Host = t.hostPort()
			if t.Port == 80 && !q.tls || t.Port == 443 && q.tls {
				pr.Out.URL.Host = bracket(t)
			}
			if q.user != nil {
				pass, _ := q.user.Password()
				pr.Out.SetBasicAuth(q.user.Username(), pass)
			}
		},
		Transport: p.direct, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			var r *RefusedError
			q.mu.Lock()
			if errors.As(err, &r) {
				q.entry.Verdict = Refused
			}
			q.entry.Why = err.Error()
			q.mu.Unlock()
			p.answer(w, err)
		},
	}).ServeHTTP(w, r.WithContext(ctx))
}

// bracket is a target's host as URLs write it.
func bracket(t Target) string {
	if t.Addr.Is6() {
		return "[" + t.Addr.String() + "]"
	}
	return t.host()
}

// permits is the part of decide that needs no lookup.
func (g *Gate) permits(t Target) error {
	p := g.policy.Load()
	if t.Name == "" {
		_, err := g.judge(p, t.Addr, t.Port)
		return err
	}
	if len(p.covering(t.Name, t.Port)) == 0 {
		return refusal("no rule allows %s at port %d", t.Name, t.Port)
	}
	return nil
}

// upstream says which proxy the transport asks; the request was permitted.
func (p *httpProxy) upstream(r *http.Request) (*url.URL, error) {
	q, ok := r.Context().Value(requestKey{}).(*request)
	if !ok {
		return nil, errors.New("not a request of this proxy")
	}
	up := p.g.conf.Upstream.route(q.target, q.tls)
	if up == nil {
		return nil, nil
	}
	return up.url, nil
}

// dial is the transport's: to the target of the request, judged, or to the
// upstream proxy after the target was judged.
func (p *httpProxy) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	q, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return nil, errors.New("not a request of this proxy")
	}
	up := p.g.conf.Upstream.route(q.target, q.tls)
	if up == nil && q.tls {
		return p.g.connect(ctx, ViaConnect, q.target, true)
	}
	if up == nil {
		return p.g.connect(ctx, ViaHTTP, q.target, true)
	}
	if addr != up.host {
		return nil, fmt.Errorf("upstream proxy is %s, not %s", up.host, addr)
	}
	if _, err := p.g.decide(ctx, q.target, q.tls); err != nil {
		return nil, err
	}
	return p.g.upstreamConn(ctx, up, q.target)
}
