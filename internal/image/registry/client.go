package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"assay/internal/image"
)

// Config says how registries are reached. The zero value pulls what is public.
type Config struct {
	// Mirrors are asked, in order, before the registry itself.
	Mirrors []Mirror
	// PlainHTTP are the registries ("host:port") that are spoken to without
	// TLS where they ask for it. Loopback always is.
	PlainHTTP []string
	// Auth knows who we are. Nil: nobody in particular.
	Auth *Keychain
	// Transport carries requests; nil: http.DefaultTransport's settings
	// without its compression. Tests and proxies set it.
	Transport http.RoundTripper
	// Progress is told about blobs, from several goroutines, a few times a
	// second. It must not block.
	Progress func(Progress)
	// Sleep waits between attempts; nil: time. Tests replace it.
	Sleep func(ctx context.Context, d time.Duration) error
	// Jobs is how many blobs are on their way at once; zero means 3.
	Jobs int
	// MaxWait is the longest time a registry may ask to wait before it is
	// refused; zero means 5 minutes.
	MaxWait time.Duration
	// Stall is how long a transfer may bring nothing; zero means a minute.
	Stall time.Duration
	// MaxBlob is the largest compressed layer in bytes; zero means 64 GiB.
	MaxBlob int64
}

// Mirror serves the content of a registry.
type Mirror struct {
	Registry string // "docker.io", "ghcr.io"; "*" for all
	URL      string // "https://mirror.example:5000"
}

// Progress is how far a pull or push is.
type Progress struct {
	Ref     string // as the caller named it
	Done    int64  // bytes here or there, those of earlier attempts included
	Total   int64  // bytes to transfer in all
	Resumed int64  // of Done: came from an earlier attempt that was cut off
	Moved   int64  // bytes that crossed the network now
}

// Client talks to registries. It may be used concurrently.
type Client struct {
	c     Config
	store *image.Store

	mu   sync.Mutex
	open map[string]*endpoint // guarded by mu; by scheme, repository and scope
}

// New returns a client that keeps images in s.
func New(s *image.Store, c Config) *Client {
	if c.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // digests are over the bytes as they are stored
		t.ResponseHeaderTimeout = time.Minute
		t.TLSHandshakeTimeout = 15 * time.Second
		t.MaxIdleConnsPerHost = 8
		c.Transport = t
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	if c.Jobs < 1 {
		c.Jobs = 3
	}
	if c.MaxWait == 0 {
		c.MaxWait = 5 * time.Minute
	}
	if c.Stall == 0 {
		c.Stall = time.Minute
	}
	if c.MaxBlob == 0 {
		c.MaxBlob = 64 << 30
	}
	return &Client{c: c, store: s, open: map[string]*endpoint{}}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// endpoint is one repository of one registry, with a way in.
type endpoint struct {
	repo   name.Repository
	mirror bool
	plain  bool // TLS is not to be tried: a mirror's URL says http
	rt     http.RoundTripper
}

// parse reads a reference as Docker does: the default registry, its "library"
// and the tag "latest" may be left out.
func (c *Client) parse(ref string) (name.Reference, error) {
	r, err := name.ParseReference(ref, name.WeakValidation)
	if err != nil {
		return nil, fmt.Errorf("image reference: %w", err)
	}
	if slices.Contains(c.c.PlainHTTP, r.Context().RegistryStr()) {
		r, err = name.ParseReference(ref, name.WeakValidation, name.Insecure)
	}
	return r, err
}

// sources are where a repository can be had, mirrors first.
func (c *Client) sources(repo name.Repository) ([]endpoint, error) {
	var all []endpoint
	for _, m := range c.c.Mirrors {
		if m.Registry != "*" && canonicalHost(m.Registry) != repo.RegistryStr() {
			continue
		}
		u, err := url.Parse(m.URL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/") != "" {
			return nil, fmt.Errorf("mirror %q of %s: want https://HOST[:PORT] without a path", m.URL, m.Registry)
		}
		var o []name.Option
		if u.Scheme == "http" {
			o = append(o, name.Insecure)
		}
		r, err := name.NewRepository(u.Host+"/"+repo.RepositoryStr(), append(o, name.WeakValidation)...)
		if err != nil {
			return nil, fmt.Errorf("mirror %q of %s: %w", m.URL, m.Registry, err)
		}
		all = append(all, endpoint{repo: r, mirror: true, plain: u.Scheme == "http"})
	}
	return append(all, endpoint{repo: repo}), nil
}

// canonicalHost is the name under which a registry is known to the library.
func canonicalHost(h string) string {
	switch h = strings.TrimSuffix(h, "/"); h {
	case "docker.io", "registry-1.docker.io", "":
		return name.DefaultRegistry
	}
	return h
}

// connect shakes hands with an endpoint, once a scope.
func (c *Client) connect(ctx context.Context, e endpoint, scope string) (*endpoint, error) {
	key := fmt.Sprint(e.repo.Name(), e.plain, scope)
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.open[key]; have != nil {
		return have, nil
	}
	auth, err := c.c.Auth.authenticator(ctx, e.repo.RegistryStr())
	if err != nil {
		return nil, err
	}
	rt, err := transport.NewWithContext(ctx, e.repo.Registry, auth, c.polite(e), []string{e.repo.Scope(scope)})
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", e.repo.RegistryStr(), explain(err))
	}
	e.rt = rt
	c.open[key] = &e
	return &e, nil
}

// polite is the transport below authentication for one endpoint.
func (c *Client) polite(e endpoint) http.RoundTripper {
	return &polite{
		inner: c.c.Transport, sleep: c.c.Sleep, max: c.c.MaxWait, host: e.repo.RegistryStr(),
		plain: e.plain && e.mirror || slices.Contains(c.c.PlainHTTP, e.repo.RegistryStr()) || loopback(e.repo.RegistryStr()),
	}
}

const maxRedirects = 5

// get asks an endpoint for path below its repository.
func (e *endpoint) get(ctx context.Context, method, path string, header http.Header) (*http.Response, error) {
	u := url.URL{Scheme: e.repo.Scheme(), Host: e.repo.RegistryStr(), Path: "/v2/" + e.repo.RepositoryStr() + "/" + path}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	client := http.Client{Transport: e.rt, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // its text repeats a URL that may hold a signature
		}
		return nil, explain(err)
	}
	return resp, nil
}

// statusError is an answer that is none.
type statusError struct {
	what   string
	status int
	detail string
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("%s: %d %s", e.what, e.status, http.StatusText(e.status))
	if e.detail != "" {
		s += ": " + e.detail
	}
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		s += " (log in with 'docker login', or set DOCKER_AUTH_CONFIG)"
	}
	return s
}

// refused drains a short error text.
func refused(what string, resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // the status is the error
	return &statusError{what: what, status: resp.StatusCode, detail: oneLine(string(b))}
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

// explain turns the library's errors for an answer into ours.
func explain(err error) error {
	var te *transport.Error
	if errors.As(err, &te) {
		var d []string
		for _, e := range te.Errors {
			d = append(d, oneLine(fmt.Sprintf("%s %.200s", e.Code, e.Message)))
		}
		return &statusError{what: "request", status: te.StatusCode, detail: strings.Join(d, "; ")}
	}
	return err
}

// anonymous is for registries that ask nothing.
func anonymous() authn.Authenticator { return authn.Anonymous }
