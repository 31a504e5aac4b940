package invert

import (
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
	"assay/internal/image"
)

// homeFiles are files of the user's home that are there.
func homeFiles(names ...string) func(g *Ground) []string {
	return func(g *Ground) []string {
		var all []string
		for _, n := range names {
			if p := path.Join(g.Home(), n); g.isFile(p) {
				all = append(all, p)
			}
		}
		return all
	}
}

func netrcDrift(_ *Ground, _, text string) []rewrite {
	host := regexp.MustCompile(`machine\s+(\S+)`)
	password := regexp.MustCompile(`(password\s+)(\S+)`)
	login := regexp.MustCompile(`(login\s+)(\S+)`)
	return []rewrite{
		{what: "host", text: host.ReplaceAllString(text, "machine old-$1")},
		{what: "expired", text: password.ReplaceAllString(text, "${1}expired-$2")},
		{what: "login", text: login.ReplaceAllString(text, "${1}$2@example.com")},
		{what: "quoted", text: password.ReplaceAllString(text, `${1}"$2`)},
	}
}

func sshDrift(_ *Ground, _, text string) []rewrite {
	host := regexp.MustCompile(`(?mi)^(\s*HostName\s+)(\S+)`)
	key := regexp.MustCompile(`(?mi)^(\s*IdentityFile\s+)(\S+)`)
	port := regexp.MustCompile(`(?mi)^(\s*Port\s+)(\d+)`)
	all := []rewrite{
		{what: "host", text: host.ReplaceAllString(text, "${1}old-$2")},
		{what: "key", text: key.ReplaceAllString(text, "${1}$2.bak")},
		{what: "port", text: port.ReplaceAllString(text, "${1}22022")},
		{what: "option", text: "UseKeychain yes\n" + text},
		{what: "catch-all first", text: "Host *\n  HostName bastion.example.com\n  Port 22022\n  User ops\n\n" + text},
	}
	return slices.DeleteFunc(all, func(r rewrite) bool { return r.text == text })
}

// credentialModes open files that their readers refuse when others can read
// them: they look at the mode, so it binds root too.
func credentialModes(g *Ground) []choice {
	var all []choice
	paths := homeFiles(".ssh/config", ".netrc", ".pgpass")(g)
	for _, e := range g.List(path.Join(g.Home(), ".ssh")) {
		if n := path.Base(e.Path); e.Type == image.TypeFile && strings.HasPrefix(n, "id_") && !strings.HasSuffix(n, ".pub") {
			paths = append(paths, "/"+e.Path)
		}
	}
	for _, p := range paths {
		e, _ := g.Entry(p)
		if e.Mode != 0o666 {
			all = append(all, choice{Site{Path: p, What: "0666"}, func(*rand.Rand) (forge.Delta, error) { return g.Chmod(p, 0o666), nil }})
		}
	}
	return all
}

func profileDrift(_ *Ground, p, text string) []rewrite {
	if path.Base(p) == ".pgpass" {
		return []rewrite{{what: "host", text: regexp.MustCompile(`(?m)^[^:#\n]+:`).ReplaceAllString(text, "db-old:")}}
	}
	section := regexp.MustCompile(`(?m)^\[([\w -]+)\]`)
	value := regexp.MustCompile(`(?m)^(\s*\w*(?:key|secret|password|token)\w*\s*=\s*)(\S+)`)
	return []rewrite{
		{what: "section", text: section.ReplaceAllString(text, "[$1-old]")},
		{what: "expired", text: value.ReplaceAllString(text, "${1}EXPIRED$2")},
	}
}

// tokens are files that hold one secret, and profiles that export one.
func tokens(g *Ground) []string {
	name := regexp.MustCompile(`(?i)(^|[._-])(token|jwt|secret|api[_-]?key|password)s?(\.txt|\.env)?$`)
	all := slices.DeleteFunc(g.Project(), func(p string) bool { return !name.MatchString(path.Base(p)) })
	for _, dir := range []string{g.Home(), path.Join(g.Home(), ".config"), "/etc", "/run/secrets", "/etc/secrets"} {
		for _, e := range g.List(dir) {
			if e.Type == image.TypeFile && name.MatchString(path.Base(e.Path)) {
				all = append(all, "/"+e.Path)
			}
		}
	}
	for _, p := range g.Profiles() {
		if text, _ := g.Text(p); secretExport().MatchString(text) {
			all = append(all, p)
		}
	}
	return all
}

func secretExport() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(export\s+\w*(?:TOKEN|SECRET|PASSWORD|API_KEY)\w*=)(["']?)(\S+?)(["']?)$`)
}

func tokenDrift(_ *Ground, p, text string) []rewrite {
	if strings.HasSuffix(p, ".sh") {
		return []rewrite{{what: "expired", text: secretExport().ReplaceAllString(text, "${1}${2}expired-$3$4")}}
	}
	bare := strings.TrimRight(text, "\n")
	return []rewrite{
		{what: "carriage return", text: bare + "\r\n"},
		{what: "quoted", text: `"` + bare + "\"\n"},
	}
}

func pems(g *Ground) []string {
	all := g.Sources(".pem", ".crt", ".key", ".cert")
	for _, d := range []string{"/etc/ssl/private", "/usr/local/share/ca-certificates"} {
		for _, e := range g.List(d) {
			all = append(all, "/"+e.Path)
		}
	}
	return all
}

func pemDrift(_ *Ground, _, text string) []rewrite {
	if !strings.Contains(text, "-----BEGIN ") {
		return nil
	}
	return []rewrite{
		{what: "one line", text: strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", `\n`) + "\n"},
		{what: "indented", text: "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"},
	}
}
