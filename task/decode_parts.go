package task

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// artifacts reads a list of paths and tables.
func (d *decoder) artifacts(t *table, name string) []Artifact {
	var out []Artifact
	t.list(name, func(k key, v any) {
		if s, ok := v.(string); ok {
			d.artifactSource(k, s)
			out = append(out, Artifact{Source: s})
			return
		}
		sub, ok := v.(map[string]any)
		if !ok {
			d.fault(k, "must be a path or a table, not %s", kindOf(v))
			return
		}
		out = append(out, d.artifact(&table{d: d, key: k, m: sub}))
	})
	return out
}

func (d *decoder) artifact(t *table) Artifact {
	a := Artifact{
		Source:      t.required("source"),
		Destination: t.text("destination"),
		Exclude:     t.texts("exclude"),
		Service:     d.service(t),
	}
	d.artifactSource(t.key.with("source"), a.Source)
	if why := badDestination(a.Destination); why != "" {
		t.fault("destination", "%s: %s", describe(a.Destination), why)
	}
	if a.Service != "" && a.Service != mainService && !absoluteInContainer(a.Source) {
		t.fault("source", "%s from service %q must be an absolute path", describe(a.Source), a.Service)
	}
	t.done()
	return a
}

// mainService is the Compose service that the agent works in.
const mainService = "main"

func (d *decoder) artifactSource(k key, s string) {
	if hasDotDot(s) {
		d.fault(k, `%s must not contain ".."`, describe(s))
	}
}

func hasDotDot(p string) bool {
	return slices.Contains(strings.Split(p, "/"), "..")
}

var windowsDrive = regexp.MustCompile(`^[A-Za-z]:[/\\]`)

func absoluteInContainer(p string) bool {
	return strings.HasPrefix(p, "/") || windowsDrive.MatchString(p)
}

func badDestination(s string) string {
	if s == "" {
		return ""
	}
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "." })
	switch {
	case strings.Contains(s, `\`):
		return "must use forward slashes"
	case strings.HasPrefix(s, "/"):
		return "must be relative to artifacts/"
	case len(parts) == 0:
		return "must name a file or directory"
	case slices.Contains(parts, ".."):
		return `must not contain ".."`
	case strings.TrimRight(s, "/") == "manifest.json":
		return "manifest.json is written by the harness itself"
	}
	return ""
}

func (d *decoder) mcpServer(t *table) MCPServer {
	s := MCPServer{Name: t.required("name")}
	if t.m["transport"] == "http" {
		t.known = append(t.known, "transport")
		s.Transport = MCPHTTP
	} else {
		s.Transport = word(t, "transport", false, MCPSSE, MCPHTTP, MCPStdio)
	}
	s.URL, s.Command = t.text("url"), t.text("command")
	s.Args, s.Headers = t.texts("args"), t.textMap("headers")
	for _, name := range sortedKeys(s.Headers) {
		if why := badHeader(name, s.Headers[name]); why != "" {
			d.fault(t.key.with("headers").with(name), "%s", why)
		}
	}
	switch {
	case s.Transport != MCPStdio && s.URL == "":
		t.fault("url", "missing; transport %q needs it", cmpOr(string(s.Transport), "sse"))
	case s.Transport == MCPStdio && s.Command == "":
		t.fault("command", `missing; transport "stdio" needs it`)
	case s.Transport == MCPStdio && len(s.Headers) > 0:
		t.fault("headers", `are for HTTP transports, not for "stdio"`)
	}
	t.done()
	return s
}

func cmpOr(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

var (
	headerName       = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	embeddedTemplate = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}`)
	// credentialValue: ${VAR} references without defaults, after an optional
	// scheme word, joined by separators only.
	credentialValue = regexp.MustCompile(`^\s*(?:[A-Za-z]+\s+)?\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}(?:[\s:-]*\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\})*\s*$`)
	sensitiveWord   = regexp.MustCompile(`(?i)KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|AUTH`)
)

// sensitive reports whether a name promises a credential. "tokens" does not:
// it counts something.
func sensitive(name string) bool {
	for _, at := range sensitiveWord.FindAllStringIndex(name, -1) {
		rest := name[at[1]:]
		if !strings.EqualFold(name[at[0]:at[1]], "token") || rest == "" || (rest[0] != 's' && rest[0] != 'S') {
			return true
		}
	}
	return false
}

// badHeader keeps credentials out of files: they must come from a variable.
func badHeader(name, value string) string {
	if !headerName.MatchString(name) {
		return "is no valid HTTP header name"
	}
	if strings.ContainsAny(value, "\r\n") {
		return "must not contain line breaks"
	}
	if strings.Contains(embeddedTemplate.ReplaceAllString(value, " "), "${") {
		return "holds a malformed ${VAR}"
	}
	credential := sensitive(name) || strings.EqualFold(name, "cookie") || strings.EqualFold(name, "set-cookie")
	for _, m := range embeddedTemplate.FindAllStringSubmatch(value, -1) {
		if strings.Contains(m[2], "${") {
			return "holds a malformed ${VAR}"
		}
		if m[2] != "" && (credential || sensitive(m[1])) {
			return "must name a credential as ${VAR} without a default"
		}
	}
	if credential && strings.TrimSpace(value) != "" && !credentialValue.MatchString(value) {
		return `must name its credential as ${VAR}, such as "Bearer ${TOKEN}"`
	}
	return ""
}

var (
	stepNameInvalid = regexp.MustCompile(`[<>:"/\\|?*\x00-\x1f\x7f]`)
	windowsDevice   = regexp.MustCompile(`(?i)^(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])$`)
)

// badStepName keeps step names usable as one directory name everywhere.
func badStepName(name string) string {
	stem, _, _ := strings.Cut(name, ".")
	switch {
	case strings.TrimSpace(name) == "":
		return "a step needs a name"
	case name == "." || name == "..":
		return "is no directory name"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return "must not end with a dot or a space"
	case stepNameInvalid.MatchString(name):
		return `must not contain separators, control characters or any of <>:"|?*`
	case windowsDevice.MatchString(strings.TrimRight(stem, " ")):
		return "is the name of a Windows device"
	case len(name) > 255:
		return "must be at most 255 bytes"
	}
	return ""
}

// stepNameKey is equal for names that some file system takes for the same.
func stepNameKey(name string) string {
	return cases.Fold().String(norm.NFC.String(name))
}
