package mirrors

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

type aptSettings struct {
	archives []aptArchive
	options  []aptOption // of Acquire::http and Acquire::https
	auth     []source
}

// aptArchive is one line of sources.list, or one URI of a stanza.
type aptArchive struct {
	url    string
	suites []string
	from   string
}

type aptOption struct{ name, value, from string }

func (s *Settings) readApt(h Host) error {
	files := append([]string{"/etc/apt/sources.list"}, h.list("/etc/apt/sources.list.d", ".list", ".sources")...)
	for _, p := range files {
		b, err := h.read(p)
		if err != nil {
			return err
		}
		if path.Ext(p) == ".sources" {
			s.apt.archives = append(s.apt.archives, stanzas(string(b), p)...)
		} else {
			s.apt.archives = append(s.apt.archives, sourceLines(string(b), p)...)
		}
	}
	for _, a := range s.apt.archives {
		s.add("apt", a.url, a.from)
	}
	conf := append(h.list("/etc/apt/apt.conf.d", "", ".conf"), "/etc/apt/apt.conf")
	for _, p := range conf {
		b, err := h.read(p)
		if err != nil {
			return err
		}
		if err := s.aptConf(h, string(b), p); err != nil {
			return err
		}
	}
	for _, p := range append([]string{"/etc/apt/auth.conf"}, h.list("/etc/apt/auth.conf.d", ".conf")...) {
		b, err := h.read(p)
		if err != nil {
			return err
		}
		if len(b) > 0 {
			s.apt.auth = append(s.apt.auth, source{p, b})
		}
	}
	return nil
}

// aptConf takes the settings about the network; the rest is this machine's.
func (s *Settings) aptConf(h Host, text, file string) error {
	options, err := aptOptions(text, file)
	if err != nil {
		return err
	}
	for _, o := range options {
		name := strings.ToLower(o.name)
		rest, web := strings.CutPrefix(name, "acquire::http")
		if !web {
			continue
		}
		kind := "http"
		if rest, web = strings.CutPrefix(rest, "s"); web {
			kind = "https"
		}
		switch {
		case rest == "::cainfo":
			if err := s.trustFile(h, o.value, o.from); err != nil {
				return err
			}
		case rest == "::proxy" && !strings.EqualFold(o.value, "direct"):
			s.through("apt", kind, o.value, o.from)
		case rest == "::proxy", strings.HasPrefix(rest, "::proxy::") && strings.EqualFold(o.value, "direct"):
			p := s.Own["apt"]
			host := o.name[strings.LastIndex(o.name, "::")+2:]
			if rest == "::proxy" {
				host = "*"
			}
			if p.No = strings.Trim(p.No+","+host, ","); p.From == "" {
				p.From = o.from
			}
			s.own("apt", p)
		}
		s.apt.options = append(s.apt.options, o)
	}
	return nil
}

// sourceLines reads the one-line format of sources.list(5).
func sourceLines(text, file string) (all []aptArchive) {
	n := 0
	for l := range strings.Lines(text) {
		n++
		l, _, _ = strings.Cut(strings.ReplaceAll(l, "\t", " "), "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
		if kind != "deb" {
			continue
		}
		if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "[") {
			_, rest, _ = strings.Cut(rest, "]")
		}
		if f := strings.Fields(rest); len(f) >= 2 {
			all = append(all, aptArchive{archiveURL(f[0]), f[1:2], at(file, n)})
		}
	}
	return all
}

// archiveURL takes apt's own prefixes off: mirror+https, tor+http.
func archiveURL(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if i := strings.LastIndexByte(scheme, '+'); ok && i >= 0 {
		return scheme[i+1:] + "://" + rest
	}
	return raw
}

// stanzas reads the deb822 format of sources.list(5).
func stanzas(text, file string) (all []aptArchive) {
	fields := map[string]string{}
	places := map[string]int{}
	last, n := "", 0
	flush := func() {
		enabled := !slices.Contains([]string{"no", "false", "without", "off", "disable", "0"}, strings.ToLower(strings.TrimSpace(fields["enabled"])))
		if enabled && slices.Contains(strings.Fields(fields["types"]), "deb") {
			for _, u := range strings.Fields(fields["uris"]) {
				all = append(all, aptArchive{archiveURL(u), strings.Fields(fields["suites"]), at(file, places["uris"])})
			}
		}
		clear(fields)
		last = ""
	}
	for l := range strings.Lines(text) {
		n++
		l = strings.TrimRight(l, "\r\n")
		switch {
		case strings.HasPrefix(l, "#"):
		case strings.TrimSpace(l) == "":
			flush()
		case l[0] == ' ' || l[0] == '\t':
			fields[last] += " " + strings.TrimSpace(l)
		default:
			name, value, _ := strings.Cut(l, ":")
			last = strings.ToLower(strings.TrimSpace(name))
			fields[last], places[last] = strings.TrimSpace(value), n
		}
	}
	flush()
	return all
}

// aptOptions reads apt.conf(5) into flat names: a { b "c"; } is a::b.
func aptOptions(text, file string) ([]aptOption, error) {
	var (
		all   []aptOption
		scope []string
		words []string
		line  = 1
	)
	full := func(name string) string { return strings.Join(append(slices.Clone(scope), name), "::") }
	end := func() {
		if len(words) >= 2 {
			all = append(all, aptOption{full(words[0]), words[1], at(file, line)})
		}
		words = nil
	}
	for i := 0; i < len(text); {
		rest := text[i:]
		switch c := text[i]; {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(rest, "//") || c == '#':
			i += lineEnd(rest)
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return nil, fmt.Errorf("%s: a comment does not end", at(file, line))
			}
			line += strings.Count(rest[:n], "\n")
			i += n + 2
		case c == '"':
			n := strings.IndexAny(rest[1:], "\"\n")
			if n < 0 || rest[1+n] == '\n' {
				return nil, fmt.Errorf("%s: a string does not end", at(file, line))
			}
			words = append(words, rest[1:1+n])
			i += n + 2
		case c == '{':
			name := ""
			if len(words) > 0 {
				name = words[0]
			}
			scope, words = append(scope, name), nil
			i++
		case c == '}':
			end()
			if len(scope) == 0 {
				return nil, fmt.Errorf("%s: a brace too many", at(file, line))
			}
			scope = scope[:len(scope)-1]
			i++
		case c == ';':
			end()
			i++
		default:
			n := strings.IndexAny(rest, " \t\r\n\"{};")
			if n < 0 {
				n = len(rest)
			}
			words = append(words, rest[:n])
			i += n
		}
		if len(scope) > 64 {
			return nil, fmt.Errorf("%s: nested too deep", at(file, line))
		}
	}
	return all, nil
}

func lineEnd(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n
	}
	return len(s)
}

// Archive kinds. Debian's security updates are an archive of their own,
// Ubuntu's are suites of the main one.
const (
	debian         = "debian"
	debianSecurity = "debian-security"
	ubuntu         = "ubuntu"
	ubuntuPorts    = "ubuntu-ports"
)

// kind says which distribution's archive a path and its suites are, empty for
// another one.
func (a aptArchive) kind() string {
	u, ok := serverURL(a.url)
	if !ok {
		return ""
	}
	if k := publicArchive(u); k != "" {
		return k
	}
	switch path.Base(strings.TrimRight(u.Path, "/")) {
	case debian:
		return debian
	case debianSecurity:
		return debianSecurity
	case ubuntu:
		return ubuntu
	case ubuntuPorts:
		return ubuntuPorts
	}
	for _, s := range a.suites {
		if strings.HasSuffix(s, "-security") && (strings.HasPrefix(s, "bo") || strings.HasPrefix(s, "tri") || strings.HasPrefix(s, "bul")) {
			return debianSecurity
		}
		switch strings.TrimSuffix(strings.TrimSuffix(s, "-updates"), "-backports") {
		case "bullseye", "bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable":
			return debian
		}
	}
	return ""
}

// publicArchive says which archive a distribution's public server has at a
// path.
func publicArchive(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	first, _, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	switch {
	case host == "security.debian.org", host == "deb.debian.org" && first == debianSecurity:
		return debianSecurity
	case host == "deb.debian.org", host == "httpredir.debian.org", strings.HasPrefix(host, "ftp.") && strings.HasSuffix(host, ".debian.org"):
		if first == debian {
			return debian
		}
	case host == "archive.ubuntu.com", strings.HasSuffix(host, ".archive.ubuntu.com"), host == "security.ubuntu.com":
		return ubuntu
	case host == "ports.ubuntu.com":
		return ubuntuPorts
	}
	return ""
}

// AptMirror is this machine's own server for the archive that a public URL
// names, empty if it uses the public one or none. The path below the archive's
// root is kept by the caller.
func (s *Settings) AptMirror(public string) string {
	u, ok := serverURL(public)
	if !ok {
		return ""
	}
	want := publicArchive(u)
	for _, a := range s.apt.archives {
		own, ok := serverURL(a.url)
		if ok && want != "" && a.kind() == want && publicArchive(own) == "" {
			return strings.TrimRight(a.url, "/")
		}
	}
	return ""
}

// AptRewrite is where this machine fetches what a sandbox asks of a public
// archive by plain HTTP, nil if from there too. That way the sources of an
// image stay what they are, and may change while it is built; apt checks
// signatures, not servers. Credentials are in it only if secrets says so.
func (s *Settings) AptRewrite(u *url.URL, secrets bool) *url.URL {
	if u.Scheme != "http" || u.Port() != "" && u.Port() != "80" {
		return nil
	}
	own, err := url.Parse(s.AptMirror(u.String()))
	if err != nil || own.Host == "" {
		return nil
	}
	to := *u
	to.Scheme, to.Host, to.User = own.Scheme, own.Host, nil
	if slices.Contains(strings.Split(u.Path, "/"), "..") {
		return nil // whoever asks for the archive gets nothing else of that server
	}
	// As it was written: apt escapes a plus, which some stores take for a space.
	to.Path = strings.TrimRight(own.Path, "/") + "/" + belowArchive(u.Path)
	to.RawPath = strings.TrimRight(own.EscapedPath(), "/") + "/" + belowArchive(u.EscapedPath())
	if secrets {
		to.User = own.User
		if to.User == nil {
			to.User = s.aptLogin(own)
		}
	}
	return &to
}

// belowArchive is a public archive's path below the archive's root.
func belowArchive(p string) string {
	p = strings.TrimLeft(p, "/")
	first, rest, _ := strings.Cut(p, "/")
	switch first {
	case debian, debianSecurity, ubuntu, ubuntuPorts:
		return rest
	}
	return p // security.debian.org has its archive at the root, too
}

// aptLogin finds what apt_auth.conf(5) has for a server; the format is netrc's.
func (s *Settings) aptLogin(u *url.URL) *url.Userinfo {
	for _, a := range s.apt.auth {
		f := strings.Fields(string(a.data))
		login, pass, here := "", "", false
		for i := 0; i+1 < len(f); i += 2 {
			switch f[i] {
			case "machine":
				if here && login != "" {
					return url.UserPassword(login, pass)
				}
				login, pass, here = "", "", authCovers(f[i+1], u)
			case "login":
				login = f[i+1]
			case "password":
				pass = f[i+1]
			}
		}
		if here && login != "" {
			return url.UserPassword(login, pass)
		}
	}
	return nil
}

// authCovers reports whether a machine of auth.conf, [scheme://]HOST[:PORT][/PATH],
// is this server's. Without a scheme it is for https alone, as in apt.
func authCovers(machine string, u *url.URL) bool {
	scheme, rest, ok := strings.Cut(machine, "://")
	if !ok {
		scheme, rest = "https", machine
	}
	host, dir, _ := strings.Cut(rest, "/")
	name, port, hasPort := strings.Cut(host, ":")
	return scheme == u.Scheme && strings.EqualFold(name, u.Hostname()) && (!hasPort || port == u.Port()) &&
		strings.HasPrefix(strings.TrimLeft(u.Path, "/")+"/", dir)
}
