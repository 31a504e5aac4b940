package catalog

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/model"
)

// Entry is one model.
type Entry struct {
	Name     string `toml:"-" json:"name"`                      // as users name it
	ID       string `toml:"id" json:"id,omitempty"`             // as its provider does; empty: Name
	Provider string `toml:"provider" json:"provider,omitempty"` // for tables; empty: unknown
	URL      string `toml:"url" json:"url,omitempty"`           // base, with the version where the provider has one: https://host/v1
	// URLs are bases of dialects that live elsewhere.
	URLs     map[model.Dialect]string `toml:"urls" json:"urls,omitempty"`
	Scripted string                   `toml:"scripted" json:"scripted,omitempty"` // a script's file instead of a URL
	Replay   string                   `toml:"replay" json:"replay,omitempty"`     // a recorded trial's directory instead of a URL

	Dialects   []model.Dialect   `toml:"dialects" json:"dialects,omitempty"` // that it speaks; empty: found out by 'model check'
	Credential *Credential       `toml:"credential" json:"credential,omitempty"`
	Headers    map[string]string `toml:"headers" json:"headers,omitempty"` // sent with every call; no secrets
	Azure      *Azure            `toml:"azure" json:"azure,omitempty"`
	CA         string            `toml:"ca" json:"ca,omitempty"`                   // file of certificates to trust besides the machine's
	ClientCert string            `toml:"client_cert" json:"client_cert,omitempty"` // file
	ClientKey  string            `toml:"client_key" json:"client_key,omitempty"`   // file
	Proxy      string            `toml:"proxy" json:"proxy,omitempty"`             // URL; empty: the environment's; "none"

	Context   int64          `toml:"context" json:"context,omitempty"`       // tokens, prompt and answer together; 0: unknown
	MaxOutput int64          `toml:"max_output" json:"max_output,omitempty"` // tokens; 0: unknown
	NoTools   bool           `toml:"no_tools" json:"no_tools,omitempty"`     // it cannot call tools
	Price     *Price         `toml:"price" json:"price,omitempty"`           // nil: unknown
	Sampling  model.Sampling `toml:"sampling" json:"sampling,omitzero"`      // set in every call, whatever the agent says
	Limits    Limits         `toml:"limits" json:"limits,omitzero"`          // of the provider

	inFile bool
}

// Credential says where a credential is found. Exactly one field but TTL and
// Header is set.
type Credential struct {
	Env     string   `toml:"env" json:"env,omitempty"`         // a variable of the host
	File    string   `toml:"file" json:"file,omitempty"`       // its first line
	Command []string `toml:"command" json:"command,omitempty"` // its output's first line; run on the host
	TTL     Duration `toml:"ttl" json:"ttl,omitempty"`         // after which the file or command is read again; 0: when a call is refused
	Header  string   `toml:"header" json:"header,omitempty"`   // that carries it; empty: the dialect's own
}

// Azure addresses a deployment: URL/openai/deployments/DEPLOYMENT/…?api-version=VERSION.
type Azure struct {
	Deployment string `toml:"deployment" json:"deployment"`
	APIVersion string `toml:"api_version" json:"api_version"`
}

// Price is in US dollars for a million tokens. Nil is unknown.
type Price struct {
	Input      *float64 `toml:"input" json:"input,omitempty"`             // not cached
	Cached     *float64 `toml:"cached" json:"cached,omitempty"`           // read from a cache
	CacheWrite *float64 `toml:"cache_write" json:"cache_write,omitempty"` // written to one
	Output     *float64 `toml:"output" json:"output,omitempty"`           // reasoning included
}

// Limits are the provider's. Zero is unknown: nothing is held back.
type Limits struct {
	Requests   int64 `toml:"requests_per_minute" json:"requests_per_minute,omitempty"`
	Tokens     int64 `toml:"tokens_per_minute" json:"tokens_per_minute,omitempty"`
	Concurrent int   `toml:"concurrent" json:"concurrent,omitempty"`
}

// Duration is a time.Duration spelled "50m".
type Duration time.Duration

// UnmarshalText reads Go's spelling.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err == nil && v < 0 {
		err = fmt.Errorf("%q is negative", b)
	}
	*d = Duration(v)
	return err
}

// MarshalText is the other way around.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Catalog is a models file.
type Catalog struct {
	Path    string // of the file; empty: there is none
	Entries []Entry
}

// Words that begin the name of a model which stands in no file.
const (
	scripted = "scripted:"
	replayed = "replay:"
)

// Find looks a model up. "scripted:FILE", "replay:DIR" and "NAME@URL" need no
// entry; paths of these are made absolute.
func (c *Catalog) Find(name string) (Entry, error) {
	for _, e := range c.Entries {
		if e.Name == name {
			return e, nil
		}
	}
	if file, ok := strings.CutPrefix(name, scripted); ok && file != "" {
		abs, err := filepath.Abs(file)
		return Entry{Name: scripted + filepath.Base(file), Provider: "scripted", Scripted: abs, Dialects: model.Dialects()}, err
	}
	if dir, ok := strings.CutPrefix(name, replayed); ok && dir != "" {
		abs, err := filepath.Abs(dir)
		return Entry{Name: replayed + filepath.Base(dir), Provider: "replay", Replay: abs, Dialects: model.Dialects()}, err
	}
	if id, at, ok := strings.Cut(name, "@"); ok && id != "" && strings.Contains(at, "://") {
		e := Entry{Name: id, URL: at, Dialects: []model.Dialect{model.Chat}}
		if problems := e.problems(); len(problems) > 0 {
			return e, fmt.Errorf("model %q: %s", name, problems[0].text)
		}
		return e, nil
	}
	return Entry{}, c.unknown(name)
}

func (c *Catalog) unknown(name string) error {
	const forms = "; or write scripted:FILE, replay:TRIAL-DIR or NAME@URL"
	if c.Path == "" {
		return fmt.Errorf("no model is named %q: there is no models file (see 'assay model list --help')"+forms, name)
	}
	var names []string
	for _, e := range c.Entries {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	if len(names) > 20 {
		names = append(names[:20], "…")
	}
	return fmt.Errorf("%s: no model is named %q; there are: %s"+forms, c.Path, name, strings.Join(names, ", "))
}

// ModelID is what the provider calls it.
func (e Entry) ModelID() string {
	if e.ID != "" {
		return e.ID
	}
	return e.Name
}

// Speaks picks the dialect that an agent is to use, and the one that the
// provider is asked in: another one only where they share none. Without
// knowledge of the provider it is taken to speak what the agent prefers.
func (e Entry) Speaks(agent []model.Dialect) (own, upstream model.Dialect, err error) {
	if len(agent) == 0 {
		return "", "", fmt.Errorf("model %s: the agent speaks no dialect", e.Name)
	}
	if len(e.Dialects) == 0 {
		return agent[0], agent[0], nil
	}
	for _, d := range agent {
		if slices.Contains(e.Dialects, d) {
			return d, d, nil
		}
	}
	return agent[0], e.Dialects[0], nil
}

// Cost is what usage costs in US dollars; nil: a number or a price that it
// needs is unknown.
func (p *Price) Cost(u *model.Usage) *float64 {
	if p == nil || u == nil || u.Input == nil || u.Output == nil {
		return nil
	}
	cached, written := zero(u.Cached), zero(u.CacheWrite)
	total, known := 0.0, true
	add := func(tokens int64, price *float64) {
		switch {
		case tokens <= 0:
		case price == nil:
			known = false
		default:
			total += float64(tokens) * *price / 1e6
		}
	}
	plain := *u.Input - cached - written
	if p.Cached == nil { // read from a cache at no less than the full price is what a bill says at most
		plain, cached = plain+cached, 0
	}
	if p.CacheWrite == nil {
		plain, written = plain+written, 0
	}
	add(plain, p.Input)
	add(cached, p.Cached)
	add(written, p.CacheWrite)
	add(*u.Output, p.Output)
	if !known {
		return nil
	}
	return &total
}

// Known reports whether every call with known usage can be priced.
func (p *Price) Known() bool { return p != nil && p.Input != nil && p.Output != nil }

func zero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// problem is something wrong with an entry, and the key that it stands at.
type problem struct{ key, text string }

// problems checks what the reader of the file cannot.
func (e Entry) problems() []problem {
	var all []problem
	bad := func(key, format string, args ...any) { all = append(all, problem{key, fmt.Sprintf(format, args...)}) }
	ways := 0
	for _, set := range []bool{e.URL != "" || len(e.URLs) > 0, e.Scripted != "", e.Replay != ""} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		bad("url", "give exactly one of url, scripted and replay")
	}
	if e.URL != "" {
		all = append(all, addressed("url", e.URL)...)
	}
	for _, d := range slices.Sorted(maps.Keys(e.URLs)) {
		if !slices.Contains(model.Dialects(), d) {
			bad("urls", "no dialect is called %q; there are %v", d, model.Dialects())
		}
		all = append(all, addressed("urls", e.URLs[d])...)
	}
	for _, d := range e.Dialects {
		if !slices.Contains(model.Dialects(), d) {
			bad("dialects", "no dialect is called %q; there are %v", d, model.Dialects())
		}
	}
	all = append(all, e.Credential.problems()...)
	for _, h := range slices.Sorted(maps.Keys(e.Headers)) {
		if l := strings.ToLower(h); l == "authorization" || l == "x-api-key" || l == "x-goog-api-key" || l == "api-key" {
			bad("headers", "%s is a credential: say where it is found with credential = { … }", h)
		}
	}
	if (e.ClientCert == "") != (e.ClientKey == "") {
		bad("client_cert", "client_cert and client_key go together")
	}
	if e.Azure != nil && (e.Azure.Deployment == "" || e.Azure.APIVersion == "") {
		bad("azure", "needs deployment and api_version")
	}
	if e.Context < 0 || e.MaxOutput < 0 || e.Limits.Requests < 0 || e.Limits.Tokens < 0 || e.Limits.Concurrent < 0 {
		bad("limits", "a limit is negative")
	}
	if p := e.Price; p != nil {
		for key, v := range map[string]*float64{"input": p.Input, "cached": p.Cached, "cache_write": p.CacheWrite, "output": p.Output} {
			if v != nil && !(*v >= 0 && *v < 1e9) {
				bad("price", "%s = %v is no price", key, *v)
			}
		}
	}
	return all
}

// addressed checks a base URL.
func addressed(key, base string) []problem {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return []problem{{key, fmt.Sprintf("%q is no http or https address", base)}}
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return []problem{{key, fmt.Sprintf("%q: credentials, queries and fragments do not belong here", u.Redacted())}}
	}
	return nil
}

func (c *Credential) problems() []problem {
	if c == nil {
		return nil
	}
	n := 0
	for _, set := range []bool{c.Env != "", c.File != "", len(c.Command) > 0} {
		if set {
			n++
		}
	}
	if n != 1 {
		return []problem{{"credential", "give exactly one of env, file and command"}}
	}
	return nil
}

// From is what finds the entry again.
func (e Entry) From() string {
	switch {
	case e.inFile:
		return e.Name
	case e.Scripted != "":
		return scripted + e.Scripted
	case e.Replay != "":
		return replayed + e.Replay
	}
	return e.Name + "@" + e.URL
}

// Where says where the model answers, for people.
func (e Entry) Where() string {
	switch {
	case e.Scripted != "":
		return scripted + e.Scripted
	case e.Replay != "":
		return replayed + e.Replay
	case e.URL != "":
		return e.URL
	}
	var all []string
	for _, d := range slices.Sorted(maps.Keys(e.URLs)) {
		all = append(all, e.URLs[d])
	}
	return strings.Join(all, " ")
}
