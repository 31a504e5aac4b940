package mirrors

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Mirror is one server that a package manager of this machine uses.
type Mirror struct {
	Manager string `json:"manager"`          // "apt", "pip", "npm", "cargo", "go", "maven", "gem"
	URL     string `json:"url"`              // without credentials
	Host    string `json:"host"`             // lower case
	Port    int    `json:"port"`             // also where the URL names none
	From    string `json:"from"`             // "/etc/pip.conf:3", "GOPROXY", or Default
	Secret  bool   `json:"secret,omitempty"` // credentials stand in the URL
}

// Default is where a mirror comes from that nobody configured: the manager's
// own public repository.
const Default = "default"

// Settings are what [Read] found.
type Settings struct {
	Mirrors   []Mirror
	Proxy     Proxy
	Own       map[string]Proxy // of managers that have one of their own
	Resolvers []string         // addresses of name servers
	LeftOut   []string         // what was found and is not used, with the reason

	apt   aptSettings
	pip   pipSettings
	npm   npmSettings
	cargo cargoSettings
	gocmd goSettings
	maven mavenSettings
	gem   gemSettings
	trust trust
	netrc source
}

// source is a file's content and where it was.
type source struct {
	path string
	data []byte
}

// Read reads the machine's settings. What is not configured is left to the
// manager's public repository. A file that its manager could not read either
// is an error that names it.
func Read(h Host) (*Settings, error) {
	s := &Settings{}
	for _, f := range []func(Host) error{
		s.readTrust, s.readProxy, s.readResolvers, s.readNetrc,
		s.readApt, s.readPip, s.readNpm, s.readCargo, s.readGo, s.readMaven, s.readGem,
	} {
		if err := f(h); err != nil {
			return nil, err
		}
	}
	s.defaults()
	s.ownProxies()
	slices.SortStableFunc(s.Mirrors, func(a, b Mirror) int { return cmp.Compare(a.Manager, b.Manager) })
	return s, nil
}

// publicHosts are the repositories that managers use when nobody tells them
// otherwise, and the hosts that these send them to for the files themselves.
func publicHosts() map[string][]string {
	return map[string][]string{
		"apt": {"http://deb.debian.org/debian", "http://security.debian.org/debian-security", "http://archive.ubuntu.com/ubuntu",
			"http://security.ubuntu.com/ubuntu", "http://ports.ubuntu.com/ubuntu-ports"},
		"pip":   {"https://pypi.org/simple", "https://files.pythonhosted.org/"},
		"npm":   {"https://registry.npmjs.org/"},
		"cargo": {"https://index.crates.io/", "https://static.crates.io/", "https://crates.io/"},
		"go":    {"https://proxy.golang.org", "https://sum.golang.org", "https://storage.googleapis.com/proxy-golang-org-prod"},
		"maven": {"https://repo.maven.apache.org/maven2", "https://repo1.maven.org/maven2"},
		"gem":   {"https://rubygems.org/", "https://index.rubygems.org/"},
	}
}

// defaults adds the public repositories of managers that nothing is configured
// for, and of those whose configuration only adds to them.
func (s *Settings) defaults() {
	for manager, urls := range publicHosts() {
		if s.replaced(manager) {
			continue
		}
		for _, u := range urls {
			if manager != "apt" || s.AptMirror(u) == "" { // each archive for itself
				s.add(manager, u, Default)
			}
		}
	}
}

// replaced reports whether the configuration takes the public repository's
// place.
func (s *Settings) replaced(manager string) bool {
	switch manager {
	case "pip":
		return s.pip.index != "" || s.pip.noIndex
	case "npm":
		return s.npm.registry != ""
	case "cargo":
		return s.cargo.replaced
	case "go":
		return s.gocmd.value("GOPROXY") != "" && !strings.Contains(s.gocmd.value("GOPROXY"), "proxy.golang.org")
	case "maven":
		return s.maven.replaced
	case "apt":
		return false
	}
	return slices.ContainsFunc(s.Mirrors, func(m Mirror) bool { return m.Manager == manager })
}

// add notes a server. What is no URL of a server (a local path, "direct") is
// passed over.
func (s *Settings) add(manager, raw, from string) {
	u, ok := serverURL(raw)
	if !ok {
		return
	}
	m := Mirror{Manager: manager, Host: strings.ToLower(u.Hostname()), From: from, Secret: u.User != nil}
	m.Port, _ = strconv.Atoi(u.Port())
	if m.Port == 0 {
		m.Port = defaultPort(u.Scheme)
	}
	m.URL = public(u)
	if !slices.ContainsFunc(s.Mirrors, func(o Mirror) bool { return o.Manager == m.Manager && o.URL == m.URL }) {
		s.Mirrors = append(s.Mirrors, m)
	}
}

func defaultPort(scheme string) int {
	switch scheme {
	case "http", "git+http":
		return 80
	case "ssh", "git+ssh":
		return 22
	case "git":
		return 9418
	}
	return 443
}

// serverURL reads a URL of a server, with cargo's and pip's prefixes.
func serverURL(raw string) (*url.URL, bool) {
	raw = strings.TrimSpace(raw)
	for _, p := range []string{"sparse+", "registry+", "git+"} {
		raw = strings.TrimPrefix(raw, p)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return nil, false
	}
	switch u.Scheme {
	case "http", "https", "ssh", "git", "socks5", "socks5h":
		return u, true
	}
	return nil, false
}

// public is a URL without credentials, query and fragment, which may hold
// tokens.
func public(u *url.URL) string {
	c := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return c.String()
}

// Target is a server's name or address with its port.
type Target struct {
	Host string
	Port int
}

func (t Target) String() string { return net.JoinHostPort(t.Host, strconv.Itoa(t.Port)) }

// Local reports whether the server is this machine itself.
func (t Target) Local() bool {
	if t.Host == "localhost" || strings.HasSuffix(t.Host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(t.Host)
	return err == nil && a.IsLoopback()
}

// Roots are the authorities of the host's side, nil if nothing here names any.
func (s *Settings) Roots() *x509.CertPool {
	if len(s.trust.certs) == 0 {
		return nil
	}
	p := x509.NewCertPool()
	for _, c := range s.trust.certs {
		p.AddCert(c)
	}
	return p
}

// Targets are all servers that package managers may need, each once, in
// order. They are named by this machine's own settings, so that private
// addresses among them are meant.
func (s *Settings) Targets() []Target {
	var all []Target
	for _, m := range s.Mirrors {
		all = append(all, Target{m.Host, m.Port})
		if m.Port == 80 { // which often leads there
			all = append(all, Target{m.Host, 443})
		}
	}
	slices.SortFunc(all, func(a, b Target) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	return slices.Compact(all)
}

// at is a place in a file, as people are told it.
func at(file string, line int) string { return fmt.Sprintf("%s:%d", file, line) }
