package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// apiVersion is of Docker 20.10: all that is needed is there, and newer engines
// still speak it where they tell so.
const apiVersion = "v1.41"

// client speaks to one engine.
type client struct {
	http    *http.Client
	dial    func(ctx context.Context) (net.Conn, error)
	version string
	address string
}

// statusError is an answer that is no success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("engine: %s (%d)", e.text, e.code) }

func isStatus(err error, codes ...int) bool {
	var s *statusError
	if !errors.As(err, &s) {
		return false
	}
	for _, c := range codes {
		if s.code == c {
			return true
		}
	}
	return false
}

// DefaultHost is where an engine listens when nothing else is said.
const DefaultHost = "unix:///var/run/docker.sock"

func newClient(host string) (*client, error) {
	if host == "" {
		host = DefaultHost
	}
	u, err := url.Parse(host)
	if err != nil {
		return nil, fmt.Errorf("address of the engine: %w", err)
	}
	var network, addr string
	switch u.Scheme {
	case "unix":
		network, addr = "unix", u.Path
	case "tcp", "http":
		network, addr = "tcp", u.Host
	default:
		return nil, fmt.Errorf("address of the engine %q: only unix:// and tcp:// without TLS are spoken; forward others to a socket, e.g. with ssh -L", host)
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	return &client{dial: dial, version: apiVersion, address: host, http: &http.Client{Transport: &http.Transport{
		DialContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		MaxIdleConns: 16, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
	}}}, nil
}

// maxAnswer is of what an engine says in one answer that is read whole.
const maxAnswer = 64 << 20

// do sends a request and returns the answer's body, which the caller closes.
func (c *client) do(ctx context.Context, method, path string, q url.Values, body io.Reader, kind string) (io.ReadCloser, error) {
	u := "http://engine/" + c.version + path
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	r, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	if r.StatusCode < 300 || r.StatusCode == http.StatusNotModified {
		return r.Body, nil
	}
	defer r.Body.Close()
	return nil, answerError(r)
}

func answerError(r *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	var m struct{ Message string }
	if json.Unmarshal(b, &m) != nil || m.Message == "" {
		m.Message = strings.TrimSpace(string(b))
	}
	return &statusError{r.StatusCode, m.Message}
}

// call sends and receives JSON; in and out may be nil.
func (c *client) call(ctx context.Context, method, path string, q url.Values, in, out any) error {
	var body io.Reader
	kind := ""
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body, kind = bytes.NewReader(b), "application/json"
	}
	r, err := c.do(ctx, method, path, q, body, kind)
	if err != nil {
		return err
	}
	defer r.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(r, maxAnswer))
		return err
	}
	return json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(out)
}

// attach connects to a container's standard streams. It must come before the
// container starts.
func (c *client) attach(ctx context.Context, id string) (*attached, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req, err := http.NewRequest("POST", "http://engine/"+c.version+"/containers/"+id+"/attach?stream=1&stdin=1&stdout=1&stderr=1", nil)
	if err == nil {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "tcp")
		err = req.Write(conn)
	}
	br := bufio.NewReaderSize(conn, 64<<10)
	var r *http.Response
	if err == nil {
		r, err = http.ReadResponse(br, req)
	}
	if err == nil && r.StatusCode != http.StatusSwitchingProtocols && r.StatusCode != http.StatusOK {
		err = answerError(r)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("attach: %w", err)
	}
	return &attached{Conn: conn, r: br}, nil
}

// attached is a container's standard streams: what is read is its standard
// output; its standard error is kept for messages.
type attached struct {
	net.Conn
	r     *bufio.Reader
	left  uint32 // of the frame that is being read
	words words
}

func (a *attached) Read(b []byte) (int, error) {
	for a.left == 0 {
		var head [8]byte
		if _, err := io.ReadFull(a.r, head[:]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint32(head[4:])
		if head[0] == 2 {
			if _, err := io.CopyN(&a.words, a.r, int64(n)); err != nil {
				return 0, err
			}
			continue
		}
		a.left = n
	}
	n, err := a.r.Read(b[:min(len(b), int(a.left))])
	a.left -= uint32(n)
	return n, err
}
