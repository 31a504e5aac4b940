package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/model"
)

// Upstream is a provider of one model. Sessions that are opened with the same
// *Upstream share its connections, credential and rate limits. It is not
// changed after its first use.
type Upstream struct {
	Name  string
	Model string // the provider's name of it; empty: as the agent says
	// Dialects that it speaks, the preferred first; empty: every one. What an
	// agent speaks besides is translated.
	Dialects []model.Dialect
	// URL is the base, with or without its version: https://api.openai.com/v1,
	// https://api.anthropic.com, or Azure's
	// https://NAME.openai.azure.com/openai/deployments/D?api-version=V: a query
	// stays one.
	URL  string
	URLs map[model.Dialect]string // of dialects that live elsewhere
	// Handler answers in this process instead; URL may be empty then.
	Handler http.Handler

	// Credential is asked for before every request and keeps what it can; with
	// refresh it must not, since the provider has just refused what it gave.
	// nil: none is sent.
	Credential func(ctx context.Context, refresh bool) (string, error)
	// AuthHeader is what the credential is sent in; empty: the dialect's own.
	// "Authorization" makes it a bearer token; Azure wants "api-key".
	AuthHeader string
	Header     http.Header // added to every request

	Transport http.RoundTripper // nil: [NewTransport] without proxy and certificates
	Cost      Cost              // nil: the price is unknown
	Rate      Rate
}

// Cost is the price in US dollars of one answer; nil: unknown.
type Cost func(*model.Usage) *float64

// Rate limits what is asked of a provider, by all sessions together. Zero
// means no limit.
type Rate struct {
	Requests   int64 // a minute
	Tokens     int64 // a minute, counted after each answer
	Concurrent int   // requests at once
}

// NewTransport returns a transport for a provider: certificates of its own
// (nil: the system's), and a proxy (nil: none, whatever the environment says).
func NewTransport(t *tls.Config, proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	return &http.Transport{
		Proxy: proxy, TLSClientConfig: t, ForceAttemptHTTP2: true,
		DialContext:            (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    15 * time.Second,
		DisableCompression:     true, // what is relayed and recorded is what the provider wrote
		MaxResponseHeaderBytes: 256 << 10,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		ReadBufferSize:         16 << 10,
	}
}

// upstream is an Upstream at work.
type upstream struct {
	*Upstream
	rt    http.RoundTripper
	rates *limiter

	mu   sync.Mutex
	last string // credential that was sent last, to be kept out of what is stored
}

func newUpstream(u *Upstream) (*upstream, error) {
	up := &upstream{Upstream: u, rt: u.Transport, rates: newLimiter(u.Rate)}
	switch {
	case u.Handler != nil:
		up.rt = &inProcess{u.Handler}
	case u.URL == "" && len(u.URLs) == 0:
		return nil, fmt.Errorf("upstream %q has no URL", u.Name)
	case up.rt == nil:
		up.rt = NewTransport(nil, nil)
	}
	for _, raw := range append(slices.Collect(maps.Values(u.URLs)), u.URL) {
		p, err := url.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("upstream %q: %w", u.Name, errors.Unwrap(err)) // the URL may hold a credential
		}
		if raw != "" && ((p.Scheme != "http" && p.Scheme != "https") || p.Host == "") {
			return nil, fmt.Errorf("upstream %q: its URL must begin with http:// or https:// and name a host", u.Name)
		}
	}
	return up, nil
}

func (u *upstream) close() {
	if t, ok := u.rt.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// speaks returns the dialect to use for an agent that speaks d.
func (u *upstream) speaks(d model.Dialect) model.Dialect {
	if len(u.Dialects) == 0 || slices.Contains(u.Dialects, d) {
		return d
	}
	return u.Dialects[0]
}

// host is who answers a request.
func (u *upstream) host(r *http.Request) string {
	if u.Handler != nil {
		return InProcess
	}
	return r.URL.Host
}

// url of a request in dialect d. path is relative to the base.
func (u *upstream) url(d model.Dialect, path string, query url.Values) (*url.URL, error) {
	raw := u.URL
	if at, ok := u.URLs[d]; ok {
		raw = at
	}
	if raw == "" {
		if u.Handler == nil {
			return nil, fmt.Errorf("upstream %q has no URL for %s", u.Name, d)
		}
		raw = "http://in-process"
	}
	base, own, _ := strings.Cut(raw, "?")
	path, more, _ := strings.Cut(path, "?")
	if strings.Contains(base, "/deployments/") { // Azure's, where the version is in the query
		path = strings.TrimPrefix(path, "/v1")
	}
	p, err := url.Parse(model.URL(base, path))
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", u.Name, errors.Unwrap(err))
	}
	q := url.Values{}
	for _, from := range []url.Values{query, parseQuery(more), parseQuery(own)} {
		maps.Copy(q, from)
	}
	p.RawQuery = q.Encode()
	return p, nil
}

func parseQuery(s string) url.Values {
	v, _ := url.ParseQuery(s) // what can be read of it
	return v
}

// authorize puts the credential into a request.
func (u *upstream) authorize(r *http.Request, d model.Dialect, refresh bool) error {
	if u.Credential == nil {
		return nil
	}
	key, err := u.Credential(r.Context(), refresh)
	if err != nil {
		return fmt.Errorf("credential of %q: %w", u.Name, err)
	}
	if key == "" {
		return nil
	}
	u.mu.Lock()
	u.last = key
	u.mu.Unlock()
	name := u.AuthHeader
	if name == "" {
		name = map[model.Dialect]string{model.Messages: "X-Api-Key", model.Gemini: "X-Goog-Api-Key"}[d]
	}
	if name == "" || strings.EqualFold(name, "Authorization") {
		name, key = "Authorization", "Bearer "+key
	}
	r.Header.Set(name, key)
	return nil
}

// secret is the credential as it was sent last.
func (u *upstream) secret() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last
}
