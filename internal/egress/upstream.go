package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/net/http/httpproxy"
)

// Upstream is the proxy that the host itself has to go through.
type Upstream struct {
	// Roots are the authorities of a proxy that is itself reached by TLS; nil:
	// the host's.
	Roots *x509.CertPool
	pick  func(*url.URL) (*url.URL, error)
	own   map[string]*Upstream // of hosts that go another way
}

// Through makes a host go by other proxies than the rest, or by none. The
// values are as for NewUpstream.
func (u *Upstream) Through(host, httpProxy, httpsProxy, noProxy string) error {
	o, err := NewUpstream(httpProxy, httpsProxy, noProxy)
	if err != nil {
		return err
	}
	if u.own == nil {
		u.own = map[string]*Upstream{}
	}
	if o != nil {
		o.Roots = u.Roots
	}
	u.own[host] = o
	return nil
}

type proxyURL struct {
	url   *url.URL
	host  string // host:port
	roots *x509.CertPool
}

// NewUpstream takes the values of the host's HTTP_PROXY, HTTPS_PROXY and
// NO_PROXY; nil, if they name no proxy.
func NewUpstream(httpProxy, httpsProxy, noProxy string) (*Upstream, error) {
	if httpProxy == "" && httpsProxy == "" {
		return nil, nil
	}
	c := httpproxy.Config{HTTPProxy: httpProxy, HTTPSProxy: httpsProxy, NoProxy: noProxy}
	u := &Upstream{pick: c.ProxyFunc()}
	for _, scheme := range []string{"http", "https"} {
		p, err := u.pick(&url.URL{Scheme: scheme, Host: "upstream-test.invalid"})
		if err != nil {
			return nil, fmt.Errorf("upstream proxy: %w", err)
		}
		if p != nil && p.Scheme != "http" && p.Scheme != "https" {
			return nil, fmt.Errorf("upstream proxy: scheme %q is not supported; http and https are", p.Scheme)
		}
	}
	return u, nil
}

// route is the proxy for a target; nil: none.
func (u *Upstream) route(t Target, tunnel bool) *proxyURL {
	if u == nil {
		return nil
	}
	if o, ok := u.own[t.host()]; ok {
		return o.route(t, tunnel)
	}
	if u.pick == nil {
		return nil
	}
	scheme := "http"
	if tunnel {
		scheme = "https"
	}
	p, err := u.pick(&url.URL{Scheme: scheme, Host: t.hostPort()})
	if err != nil || p == nil {
		return nil
	}
	port := p.Port()
	if port == "" {
		if port = "80"; p.Scheme == "https" {
			port = "443"
		}
	}
	return &proxyURL{url: p, host: net.JoinHostPort(p.Hostname(), port), roots: u.Roots}
}

func (p *proxyURL) authorization() string {
	if p.url.User == nil {
		return ""
	}
	pass, _ := p.url.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(p.url.User.Username()+":"+pass))
}

// connect opens a tunnel through the proxy.
func (p *proxyURL) connect(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), t Target) (_ net.Conn, err error) {
	c, err := dial(ctx, "tcp", p.host)
	if err != nil {
		return nil, fmt.Errorf("upstream proxy: %w", err)
	}
	raw := c
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			raw.Close()
		}
	}()
	if p.url.Scheme == "https" {
		c = tls.Client(c, &tls.Config{ServerName: p.url.Hostname(), RootCAs: p.roots, MinVersion: tls.VersionTLS12})
	}
	q := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: t.hostPort()}, Host: t.hostPort(), Header: http.Header{}}
	if a := p.authorization(); a != "" {
		q.Header.Set("Proxy-Authorization", a)
	}
	if err := q.Write(c); err != nil {
		return nil, fmt.Errorf("upstream proxy: %w", err)
	}
	br := bufio.NewReader(io.LimitReader(c, maxHeader))
	res, err := http.ReadResponse(br, q)
	if err != nil {
		return nil, fmt.Errorf("upstream proxy: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("upstream proxy %s: %s", p.host, clip(res.Status))
	}
	if br.Buffered() > 0 { // the server spoke first
		b, err := br.Peek(br.Buffered())
		if err != nil {
			return nil, err
		}
		return &peeked{Conn: c, head: b}, nil
	}
	return c, nil
}

// peeked gives bytes back that were read before their time.
type peeked struct {
	net.Conn
	head []byte
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.head) > 0 {
		n := copy(b, p.head)
		p.head = p.head[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

func (p *peeked) CloseWrite() error {
	if h, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}
