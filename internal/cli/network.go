package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/egress"
	"assay/internal/egress/netstack"
	"assay/internal/job"
	"assay/internal/mirrors"
	"assay/internal/sandbox"
)

// openGate makes the way out of one sandbox of a job, through the proxy that this
// machine itself has to use.
func (a *app) openGate(r job.EgressRequest) (job.Gate, error) {
	up, err := egress.NewUpstream(a.env("HTTP_PROXY", "http_proxy"), a.env("HTTPS_PROXY", "https_proxy"), a.env("NO_PROXY", "no_proxy"))
	if err != nil {
		return nil, err
	}
	behindTLS := func(name string) bool { return strings.HasPrefix(a.env(strings.ToUpper(name), name), "https://") }
	if behindTLS("https_proxy") || behindTLS("http_proxy") {
		s, err := mirrors.Read(a.machine()) // a proxy behind TLS often has the company's certificate
		if err != nil {
			return nil, fmt.Errorf("authorities for the proxy: %w", err)
		}
		up.Roots = s.Roots()
	}
	if err := os.MkdirAll(filepath.Dir(r.Ledger), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(r.Ledger, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open egress ledger: %w", err)
	}
	return &way{Gate: egress.New(egress.Config{Ledger: egress.NewLedger(f, 0), Upstream: up, Link: interfaces().Link}), file: f}, nil
}

// interfaces end what leaves sandboxes as packets.
func interfaces() netstack.Config {
	inside := []netip.Addr{netip.MustParsePrefix(sandbox.LinkAddr4).Addr(), netip.MustParsePrefix(sandbox.LinkAddr6).Addr()}
	return netstack.Config{Inside: inside, MTU: sandbox.LinkMTU}
}

// env is the first of some variables that is set.
func (a *app) env(names ...string) string {
	for _, n := range names {
		if v, ok := a.Env(n); ok && v != "" {
			return v
		}
	}
	return ""
}

type way struct {
	*egress.Gate
	file *os.File
}

// Allow implements job.Gate.
func (g *way) Allow(phase string, byTask, byOperator []string) error {
	rules, err := egress.ParseRules(byOperator, true)
	if err != nil {
		return err
	}
	more, err := egress.ParseRules(byTask, false)
	if err != nil {
		return err
	}
	g.Gate.Allow(phase, append(rules, more...), false)
	return nil
}

// Close implements job.Gate.
func (g *way) Close() error { return errors.Join(g.Gate.Close(), g.file.Close()) }
