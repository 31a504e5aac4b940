package web

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"strings"

	"assay/trial"
)

//go:embed assets
var assets embed.FS

// pages holds the templates, one set for live pages and reports.
type pages struct {
	t       *template.Template
	css, js string
	csp     string // for a page with style and script inlined: their digests, nothing else
}

func newPages() (*pages, error) {
	t, err := template.New("").Funcs(funcs()).ParseFS(assets, "assets/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse page templates: %w", err)
	}
	p := &pages{t: t}
	for name, into := range map[string]*string{"style.css": &p.css, "script.js": &p.js} {
		b, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return nil, err
		}
		*into = string(b)
	}
	digest := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	p.csp = "default-src 'none'; style-src " + digest(p.css) + "; script-src " + digest(p.js) + "; base-uri 'none'; form-action 'none'"
	return p, nil
}

// funcs are what templates may call; all but the pictures return plain text.
func funcs() template.FuncMap {
	return template.FuncMap{
		"bytes": Bytes, "millis": Millis, "percent": Percent, "interval": interval, "rate": rate,
		"tokens": Tokens, "dollars": Dollars, "clock": clock, "reward": reward,
		"line": line, "name": name, "clean": Clean, "slug": slug,
		"intervalsvg": intervalSVG, "sharesvg": shareSVG, "phasessvg": phasesSVG,
		"parts":    parts,
		"words":    tallyWords,
		"phase":    phaseRank,
		"own":      own,
		"usage":    func(u trial.Usage) Used { return sumUsage([]trial.Usage{u}) },
		"exit":     exitWord,
		"count":    count,
		"outcome":  outcomeWord,
		"glyph":    glyph,
		"optional": optionalBytes,
		"clip":     Clip,
		"next":     func(n int) int { return n + 1 },
		"choice": func(name, label, now string, width int, values []string) choice {
			return choice{name, label, now, width, values}
		},
		"file": func(l links, t *Trial, path string) fileLink { return fileLink{Path: path, Href: l.File(t, path)} },
	}
}

func exitWord(n *int) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

func optionalBytes(n *int64) string {
	if n == nil {
		return unknown
	}
	return Bytes(*n)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n) + " " + many
}

// outcomeWord keeps an unregistered word out of class names.
func outcomeWord(w string) string {
	for _, o := range trial.Outcomes() {
		if w == string(o) {
			return w
		}
	}
	switch State(w) {
	case StatePlanned, StateRunning:
		return w
	}
	return "other"
}

// glyph is an ending in one character, where several stand side by side; the
// word stands in the link's title and label.
func glyph(w string) string {
	switch trial.Outcome(w) {
	case trial.Pass:
		return "✓"
	case trial.Fail:
		return "✗"
	case trial.Inconclusive:
		return "?"
	case trial.Invalid:
		return "!"
	case trial.Infra:
		return "∅"
	}
	return "…"
}

// choice is one list of a filter.
type choice struct {
	Name, Label, Now string
	Width            int // bytes of a value that are shown, as in the list
	Values           []string
}

// fileLink is a file of a trial; Href is empty where there is nothing to open.
type fileLink struct{ Path, Href string }

// head is what every page needs around its content.
type head struct {
	Title string
	CSP   string       // of an inlined page
	CSS   template.CSS // of an inlined page
	JS    template.JS  // of an inlined page
	Live  bool         // style and script are fetched from this server
	Feed  string       // address of the events to listen to; empty when nothing will change
}

func (p *pages) inlined(title string) head {
	return head{Title: line(title, 200), CSP: p.csp, CSS: template.CSS(p.css), JS: template.JS(p.js)}
}

func (p *pages) render(w io.Writer, name string, data any) error {
	if err := p.t.ExecuteTemplate(w, name, data); err != nil {
		return fmt.Errorf("render %s page: %w", name, err)
	}
	return nil
}

// links says where a page's links lead; its fields are our own words, its
// methods escape what comes from a trial.
type links struct {
	live   string // "/job/ID" on the live server
	folder string // of the report's trial pages, relative to the page; empty when they are inlined
	back   string // from a trial page to its job
}

// Live reports whether a server answers the links.
func (l links) Live() bool { return l.live != "" }

// Job leads from a trial to its job.
func (l links) Job() string { return l.back }

// Trial leads to a trial's page.
func (l links) Trial(t *Trial) string {
	switch {
	case l.live != "":
		return l.live + "/trial/" + url.PathEscape(t.Name)
	case l.folder != "":
		return l.folder + "/" + slug(t.Name) + ".html"
	}
	return "#t-" + slug(t.Name)
}

// File leads to a raw file of a trial; reports hold none.
func (l links) File(t *Trial, path string) string {
	if l.live == "" {
		return ""
	}
	var parts []string
	for _, s := range strings.Split(path, "/") {
		parts = append(parts, url.PathEscape(s))
	}
	return l.live + "/trial/" + url.PathEscape(t.Name) + "/file/" + strings.Join(parts, "/")
}

// Cell leads to the list of one agent's attempts at one task; reports have no
// such page.
func (l links) Cell(task, agent string) string {
	if l.live == "" {
		return ""
	}
	return l.live + "?" + Filter{Task: plainName(task), Agent: plainName(agent)}.Query() + "#trials"
}

// slug is a name fit for a file name and an anchor. Names with anything but
// letters, digits, dot, dash and underscore have a digest instead of it.
func slug(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' && b.Len() > 0 {
			b.WriteRune(r)
		}
		if b.Len() == 100 {
			break
		}
	}
	if b.String() == name && name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return b.String() + "-" + hex.EncodeToString(sum[:6])
}

// jobPage is the data of a job's page.
type jobPage struct {
	Head    head
	Links   links
	Job     *Job
	Sum     Summary
	Filter  Filter
	Choices choices
	Shown   []*Trial
	Inlined []trialPage // the details, in a report that holds them itself
	Home    bool        // there is a list of jobs to go back to
}

// trialPage is the data of a trial's page.
type trialPage struct {
	Head   head
	Links  links
	Job    string // its name
	Detail Detail
}

func newJobPage(j *Job, f Filter) jobPage {
	return jobPage{
		Job: j, Sum: Summarize(j.Trials), Filter: f, Choices: choicesOf(j.Trials), Shown: f.Apply(j.Trials),
	}
}
