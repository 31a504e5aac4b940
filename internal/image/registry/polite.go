package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// polite is a transport that does as it is told when a registry is busy, tries
// again what the network lost, and never speaks plain HTTP uninvited.
type polite struct {
	inner http.RoundTripper
	sleep func(ctx context.Context, d time.Duration) error
	max   time.Duration // the longest wait a registry may ask for
	host  string        // of the endpoint
	plain bool          // host may be spoken to without TLS
}

// ErrPlainHTTP: a registry would have to be spoken to without TLS.
var ErrPlainHTTP = errors.New("plain HTTP is refused")

const (
	attempts   = 5
	firstPause = 500 * time.Millisecond
)

// RoundTrip implements http.RoundTripper.
func (p *polite) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !(p.plain && req.URL.Host == p.host) {
		return nil, fmt.Errorf("%w to %s: say --plain-http %s if that is what you want", ErrPlainHTTP, req.URL.Host, req.URL.Host)
	}
	again := req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
	pause := firstPause
	for try := 1; ; try++ {
		resp, err := p.inner.RoundTrip(req)
		wait, retry, refusal := p.judge(resp, err, pause)
		if refusal != nil {
			drain(resp)
			return nil, refusal
		}
		if !retry || try == attempts {
			return resp, err
		}
		if !again {
			// The body is spent: whoever sent it tries again, but not before.
			if resp != nil {
				if e := p.sleep(req.Context(), wait); e != nil {
					drain(resp)
					return nil, e
				}
			}
			return resp, err
		}
		drain(resp)
		if e := p.sleep(req.Context(), wait); e != nil {
			return nil, e
		}
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		pause *= 2
	}
}

// judge says whether and after how long to try again.
func (p *polite) judge(resp *http.Response, err error, pause time.Duration) (wait time.Duration, retry bool, refusal error) {
	if err != nil {
		return pause, errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF), nil
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		wait = pause
		if asked, ok := retryAfter(resp.Header, time.Now()); ok {
			if asked > p.max {
				return 0, false, fmt.Errorf("registry %s asks to wait %s (%d %s), longer than %s; try again later, log in, or use --mirror",
					p.host, asked.Round(time.Second), resp.StatusCode, http.StatusText(resp.StatusCode), p.max)
			}
			wait = max(asked, firstPause/10)
		}
		return wait, true, nil
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusInternalServerError:
		return pause, true, nil
	}
	return 0, false, nil
}

// retryAfter reads seconds or a date, RFC 9110 section 10.2.3.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := h.Get("Retry-After")
	if v == "" {
		return 0, false
	}
	if n, err := strconv.ParseInt(v, 10, 32); err == nil {
		return time.Duration(max(0, n)) * time.Second, true
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now)), true
	}
	return 0, false
}

func drain(resp *http.Response) {
	if resp == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // for the connection's sake only
	resp.Body.Close()
}

// loopback reports whether a registry is this machine by its literal name.
func loopback(hostport string) bool {
	h, _, err := net.SplitHostPort(hostport)
	if err != nil {
		h = hostport
	}
	ip := net.ParseIP(h)
	return h == "localhost" || ip != nil && ip.IsLoopback()
}
