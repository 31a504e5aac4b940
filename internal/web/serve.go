package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/stats"
	"assay/internal/store"
	"assay/trial"
)

// Handler serves the pages of all jobs below one folder. It only reads, and
// answers nobody but a browser on this machine: see [Handler.ServeHTTP].
type Handler struct {
	root  string // absolute, links resolved
	pages *pages
	mux   *http.ServeMux
	jobs  *cache
	src   source
}

// NewHandler serves the jobs below root, or the one job that root is.
func NewHandler(root string) (*Handler, error) { return newHandler(root, disk()) }

func newHandler(root string, src source) (*Handler, error) {
	abs, err := filepath.Abs(root)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("view %s: %w", root, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("view %s: %w", root, errors.Join(errors.New("not a directory"), err))
	}
	p, err := newPages()
	if err != nil {
		return nil, err
	}
	h := &Handler{root: abs, pages: p, mux: http.NewServeMux(), jobs: newCache(), src: src}
	h.mux.HandleFunc("GET /{$}", h.home)
	h.mux.HandleFunc("GET /assets/{name}", h.asset)
	h.mux.HandleFunc("GET /job/{job}", h.job)
	h.mux.HandleFunc("GET /job/{job}/events", h.events)
	h.mux.HandleFunc("GET /job/{job}/trial/{trial}", h.trial)
	h.mux.HandleFunc("GET /job/{job}/trial/{trial}/file/{path...}", h.file)
	return h, nil
}

// ServeHTTP refuses a Host that is not this machine's loopback name: a page of
// another site whose name was made to resolve to 127.0.0.1 (DNS rebinding)
// must not read jobs. Every answer forbids scripts, frames and connections of
// any other origin, and type sniffing.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	set := w.Header().Set
	set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	set("X-Content-Type-Options", "nosniff")
	set("Referrer-Policy", "no-referrer")
	set("Cross-Origin-Resource-Policy", "same-origin")
	set("Cross-Origin-Opener-Policy", "same-origin")
	set("Cache-Control", "no-cache")
	if !loopbackHost(r.Host) {
		http.Error(w, "this server answers on 127.0.0.1 and localhost only", http.StatusMisdirectedRequest)
		return
	}
	if s := r.Header.Get("Sec-Fetch-Site"); s == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		http.Error(w, "other sites may link here and nothing else", http.StatusForbidden)
		return
	}
	h.mux.ServeHTTP(w, r)
}

func loopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Serve answers on ln until ctx ends. ln must listen on a loopback address.
// Open event streams end with ctx.
func Serve(ctx context.Context, ln net.Listener, h http.Handler) error {
	a, ok := ln.Addr().(*net.TCPAddr)
	if !ok || !a.IP.IsLoopback() {
		ln.Close()
		return fmt.Errorf("serve pages on %s: not a loopback address; jobs hold what agents wrote and are shown on this machine alone", ln.Addr())
	}
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		done <- errors.Join(s.Shutdown(stop), s.Close())
	}()
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		s.Close()
		return fmt.Errorf("serve pages: %w", err)
	}
	return <-done
}

// rootID is the id of the root itself where that is a job. No other job has
// it: directories with a leading dot are none.
const rootID = ".root"

// jobID is a job's folder below root as one path segment.
func jobID(rel string) string { return url.PathEscape(filepath.ToSlash(rel)) }

// jobDir turns a job's id back into a directory below root. No component may
// be a link or start with a dot, so that neither kept attempts nor anything
// outside of root is ever opened as a job.
func (h *Handler) jobDir(id string) (string, error) {
	if id == rootID {
		return h.root, nil
	}
	rel := filepath.FromSlash(id)
	if !filepath.IsLocal(rel) {
		return "", fs.ErrNotExist
	}
	dir := h.root
	for part := range strings.SplitSeq(filepath.Clean(rel), string(filepath.Separator)) {
		dir = filepath.Join(dir, part)
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || strings.HasPrefix(part, ".") {
			return "", fs.ErrNotExist
		}
	}
	return dir, nil
}

// open reads the job that a request names, or answers it.
func (h *Handler) open(w http.ResponseWriter, r *http.Request) (*Job, bool) {
	dir, err := h.jobDir(r.PathValue("job"))
	if err == nil {
		var j *Job
		if j, err = h.jobs.read(dir, h.src.read); err == nil {
			return j, true
		}
	}
	fail(w, err)
	return nil, false
}

func fail(w http.ResponseWriter, err error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrNoJob) {
		http.Error(w, "there is no such job, trial or file here", http.StatusNotFound)
		return
	}
	http.Error(w, line(err.Error(), 500), http.StatusInternalServerError)
}

// answer renders into memory first, so that an error is an error and not half
// a page.
func (h *Handler) answer(w http.ResponseWriter, name string, data any) {
	var b bytes.Buffer
	if err := h.pages.render(&b, name, data); err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(b.Bytes()) // the browser may be gone; nothing is lost by it
}

func (h *Handler) asset(w http.ResponseWriter, r *http.Request) {
	body, kind := h.pages.css, "text/css; charset=utf-8"
	switch r.PathValue("name") {
	case "style.css":
	case "script.js":
		body, kind = h.pages.js, "text/javascript; charset=utf-8"
	default:
		fail(w, fs.ErrNotExist)
		return
	}
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
}

// jobLink is one line of the list of jobs.
type jobLink struct {
	store.Summary
	Path  string
	Href  string
	Tally stats.Tally
}

type homePage struct {
	Head head
	Root string
	Text string
	Jobs []jobLink
}

func (h *Handler) home(w http.ResponseWriter, r *http.Request) {
	jobs, err := h.src.list(h.root)
	if err != nil {
		fail(w, err)
		return
	}
	p := homePage{Head: head{Title: "Jobs · assay", Live: true}, Root: h.root, Text: FilterOf(r.URL.Query()).Text}
	words := strings.Fields(strings.ToLower(p.Text))
	for _, s := range jobs {
		rel, err := filepath.Rel(h.root, s.Dir)
		if err != nil {
			continue
		}
		if rel == "." {
			http.Redirect(w, r, "/job/"+rootID+"?"+r.URL.RawQuery, http.StatusSeeOther)
			return
		}
		if containsAll(strings.ToLower(rel), words) {
			p.Jobs = append(p.Jobs, jobLink{Summary: s, Path: rel, Href: "/job/" + jobID(rel), Tally: tallyOf(s)})
		}
	}
	h.answer(w, "jobs", p)
}

// tallyOf is what a list knows of a job's endings. Another harness counts
// trials, not outcomes; its jobs show no more than how far they are.
func tallyOf(s store.Summary) stats.Tally {
	return stats.Tally{
		Planned: s.Planned, Pass: s.Outcomes[trial.Pass], Fail: s.Outcomes[trial.Fail], Inconclusive: s.Outcomes[trial.Inconclusive],
		Invalid: s.Outcomes[trial.Invalid], Infra: s.Outcomes[trial.Infra],
	}
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

func (h *Handler) job(w http.ResponseWriter, r *http.Request) {
	j, ok := h.open(w, r)
	if !ok {
		return
	}
	here := "/job/" + url.PathEscape(r.PathValue("job"))
	p := newJobPage(j, FilterOf(r.URL.Query()))
	p.Head = head{Title: line(j.Name, 200) + " · assay", Live: true, Feed: feed(here, j)}
	p.Links, p.Home = links{live: here, back: here}, r.PathValue("job") != rootID
	name := "job"
	if r.URL.Query().Has("fragment") {
		name = "jobfragment"
	}
	h.answer(w, name, p)
}

// feed is where a page listens for what happens after the state it shows.
func feed(here string, j *Job) string {
	if j.Foreign || j.State == StateFinished {
		return ""
	}
	return fmt.Sprintf("%s/events?since=%d", here, j.Seq)
}

func (h *Handler) trial(w http.ResponseWriter, r *http.Request) {
	j, ok := h.open(w, r)
	if !ok {
		return
	}
	t := j.trial(r.PathValue("trial"))
	if t == nil {
		fail(w, fs.ErrNotExist)
		return
	}
	here := "/job/" + url.PathEscape(r.PathValue("job"))
	p := trialPage{
		Head:  head{Title: line(t.Name, 120) + " · " + line(j.Name, 80), Live: true},
		Links: links{live: here, back: here}, Job: j.Name, Detail: readDetail(t, pageRoom),
	}
	if f := feed(here, j); f != "" && !t.Ended() {
		p.Head.Feed = f + "&trial=" + url.QueryEscape(t.Name)
	}
	name := "trial"
	if r.URL.Query().Has("fragment") {
		name = "trialfragment"
	}
	h.answer(w, name, p)
}

// file gives a raw file of a trial, always as plain text or as a download: an
// HTML file that an agent wrote is never rendered on this origin.
func (h *Handler) file(w http.ResponseWriter, r *http.Request) {
	j, ok := h.open(w, r)
	if !ok {
		return
	}
	t := j.trial(r.PathValue("trial"))
	if t == nil {
		fail(w, fs.ErrNotExist)
		return
	}
	f, info, err := openFile(t, r.PathValue("path"))
	if err != nil {
		fail(w, fs.ErrNotExist) // a link, a pipe, a folder or nothing: not to be had here
		return
	}
	defer f.Close()
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	http.ServeContent(w, r, "", info.ModTime(), f)
}
