package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/gateway"
	"assay/internal/job"
	"assay/internal/mirrors"
	"assay/internal/model"
	"assay/internal/model/anthropic"
	"assay/internal/model/catalog"
	"assay/internal/model/gemini"
	"assay/internal/model/openai"
	"assay/internal/model/replay"
	"assay/internal/model/scripted"
)

// codecs is the table of dialects.
func codecs() model.Codecs {
	return model.Codecs{
		model.Chat: openai.Chat{}, model.Responses: openai.Responses{}, model.Messages: anthropic.Messages{}, model.Gemini: gemini.Gemini{},
	}
}

// openCatalog reads the models file: the one named, else the user's, else none.
func (a *app) openCatalog(f modelFlags) (*catalog.Catalog, error) {
	path := f.Models
	if path == "" {
		if path = a.modelsFile(); path == "" {
			return &catalog.Catalog{}, nil
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return &catalog.Catalog{}, nil
		}
	}
	c, err := catalog.Read(path)
	if err != nil {
		return nil, usage(err)
	}
	return c, nil
}

// modelsFile is the user's own; empty: there is no place for one.
func (a *app) modelsFile() string {
	if dir := a.env("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "assay", "models.toml")
	}
	if home := a.env("HOME"); home != "" {
		return filepath.Join(home, ".config", "assay", "models.toml")
	}
	return ""
}

// switchboard connects trials with models: one gateway for all of a command.
type switchboard struct {
	a  *app
	gw *gateway.Gateway

	mu  sync.Mutex
	ups map[string]*gateway.Upstream // by entry and what an arm changes of it

	replays []*replay.Server
}

func (a *app) switchboard() (*switchboard, error) {
	gw, err := gateway.New(gateway.Config{Codecs: codecs()})
	if err != nil {
		return nil, err
	}
	return &switchboard{a: a, gw: gw, ups: map[string]*gateway.Upstream{}}, nil
}

// Close ends every session.
func (s *switchboard) Close() error {
	err := s.gw.Close()
	for _, r := range s.replays {
		err = errors.Join(err, r.Close())
	}
	return err
}

// upstream makes what stands behind an entry; the same for all trials of all
// arms that ask it in the same way, for they share its limits.
func (s *switchboard) upstream(e catalog.Entry, o armOptions) (*gateway.Upstream, error) {
	e = o.change(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.Join([]string{e.Name, e.URL, o.KeyEnv, e.Scripted, e.Replay}, "\x00")
	if u := s.ups[key]; u != nil {
		return u, nil
	}
	u := &gateway.Upstream{
		Name: e.Name, Model: e.ModelID(), Dialects: e.Dialects, URL: e.URL, URLs: e.URLs, Header: http.Header{},
		Rate: gateway.Rate{Requests: e.Limits.Requests, Tokens: e.Limits.Tokens, Concurrent: e.Limits.Concurrent},
	}
	for k, v := range e.Headers {
		u.Header.Set(k, v)
	}
	if e.Price.Known() {
		u.Cost = e.Price.Cost
	}
	if e.Credential != nil {
		u.Credential = (&credential{a: s.a, from: *e.Credential, name: e.Name}).get
		u.AuthHeader = e.Credential.Header
	}
	if e.Azure != nil {
		u.URL = strings.TrimSuffix(e.URL, "/") + "/openai/deployments/" + url.PathEscape(e.Azure.Deployment) + "?api-version=" + url.QueryEscape(e.Azure.APIVersion)
		if u.AuthHeader == "" {
			u.AuthHeader = "api-key"
		}
	}
	var err error
	switch {
	case e.Scripted != "":
		u.Handler, err = scripted.Open(e.Scripted)
	case e.Replay != "":
		var r *replay.Server
		if r, err = replay.Open(e.Replay, codecs()); err == nil {
			u.Handler, u.Dialects = r, r.Dialects()
			s.replays = append(s.replays, r)
		}
	default:
		u.Transport, err = s.transport(e)
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", e.Name, err)
	}
	s.ups[key] = u
	return u, nil
}

// change is what an arm's own options make of an entry.
func (o armOptions) change(e catalog.Entry) catalog.Entry {
	if o.URL != "" {
		e.URL, e.URLs = o.URL, nil
	}
	if o.KeyEnv != "" {
		e.Credential = &catalog.Credential{Env: o.KeyEnv}
	}
	return e
}

// transport trusts what this machine trusts, and goes through its proxy.
func (s *switchboard) transport(e catalog.Entry) (http.RoundTripper, error) {
	t := &tls.Config{}
	known, err := mirrors.Read(s.a.machine())
	if err != nil {
		return nil, err
	}
	if e.CA != "" {
		b, err := os.ReadFile(e.CA)
		if err != nil {
			return nil, err
		}
		roots := known.Roots()
		if roots == nil {
			if roots, err = x509.SystemCertPool(); err != nil {
				return nil, err
			}
		}
		if !roots.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s holds no certificate", e.CA)
		}
		t.RootCAs = roots
	} else {
		t.RootCAs = known.Roots()
	}
	if e.ClientCert != "" {
		c, err := tls.LoadX509KeyPair(e.ClientCert, e.ClientKey)
		if err != nil {
			return nil, err
		}
		t.Certificates = []tls.Certificate{c}
	}
	proxy := http.ProxyFromEnvironment
	switch e.Proxy {
	case "":
	case "none":
		proxy = nil
	default:
		u, err := url.Parse(e.Proxy)
		if err != nil || u.Host == "" {
			return nil, errors.New("its proxy is no address")
		}
		proxy = http.ProxyURL(u)
	}
	return gateway.NewTransport(t, proxy), nil
}

// connect gives an arm its model.
func (m *armory) connect(arm *job.Arm, s armSpec) error {
	if s.model == "" {
		return nil
	}
	e, err := m.catalog.Find(s.model)
	if err != nil {
		return err
	}
	if len(e.Dialects) == 0 {
		e.Dialects = m.a.readSpoken()[e.Where()]
	}
	n, err := needs(*arm)
	if err != nil {
		return fmt.Errorf("agent %q: %w", s.agent, err)
	}
	if n.Dialect == "" {
		return fmt.Errorf("agent %q asks no model; leave out -m %s", s.agent, s.model)
	}
	if _, _, err := e.Speaks(dialects(n.Dialect)); err != nil {
		return err
	}
	arm.Model = &job.Model{Name: e.Name, Provider: e.Provider}
	if from := e.From(); from != e.Name {
		arm.Model.From = from
	}
	for _, d := range e.Dialects {
		arm.Model.Dialects = append(arm.Model.Dialects, string(d))
	}
	arm.Model.Open = func(_ context.Context, r job.LineRequest) (job.Line, error) { return m.switches.open(e, s.options, r) }
	return nil
}

// dialects are those of a list with commas.
func dialects(list string) []model.Dialect {
	var all []model.Dialect
	for d := range strings.SplitSeq(list, ",") {
		all = append(all, model.Dialect(strings.TrimSpace(d)))
	}
	return all
}

// priced refuses a limit of money where the price is unknown.
func priced(arms []job.Arm, c *catalog.Catalog, what string) error {
	var without []string
	for _, arm := range arms {
		if arm.Model == nil {
			continue
		}
		from := arm.Model.From
		if from == "" {
			from = arm.Model.Name
		}
		if e, err := c.Find(from); err == nil && !e.Price.Known() && !slices.Contains(without, e.Name) {
			without = append(without, e.Name)
		}
	}
	if len(without) > 0 {
		return fmt.Errorf("%s needs prices, and those of %s are unknown: add price = { input = …, output = … } in US dollars for a million tokens to the models file, or limit tokens", what, strings.Join(without, ", "))
	}
	return nil
}

// loops are how an agent's repetitions are found, unless it may.
func (o armOptions) loops() *gateway.LoopRules {
	if o.NoLoops {
		return nil
	}
	rules := gateway.DefaultLoopRules()
	return &rules
}

// open begins a session for one step of a trial.
func (s *switchboard) open(e catalog.Entry, o armOptions, r job.LineRequest) (job.Line, error) {
	own, _, err := o.change(e).Speaks(r.Speaks)
	if err != nil {
		return nil, err
	}
	conf, err := s.session(e, o, r)
	if err != nil {
		return nil, err
	}
	l := &line{entry: e, dialect: own, dir: r.Dir}
	conf.OnWait = r.OnWait
	conf.OnStop = func(st gateway.Stop) { l.stopped(st, r.OnStop) }
	conf.OnCall = func(c gateway.Call) { told(c, r.OnUse) }
	l.s, err = s.gw.Open(conf)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// session is what a gateway is told of one, without its callbacks.
func (s *switchboard) session(e catalog.Entry, o armOptions, r job.LineRequest) (gateway.SessionConfig, error) {
	c := gateway.SessionConfig{
		Trial: r.Trial, Dir: r.Dir, Model: e.ModelID(),
		Budget: gateway.Budget{Tokens: r.Budget.Tokens, USD: r.Budget.USD}, Patience: time.Duration(o.Patience),
		Pin: gateway.Pin{Sampling: over(e.Sampling, o.Sampling)}, Grant: o.Grant, CaptureTokens: o.Capture, Loop: o.loops(),
	}
	var err error
	c.Upstream, err = s.upstream(e, o)
	return c, err
}

// over is what base says, but for what top says.
func over(base, top model.Sampling) model.Sampling {
	b, err := json.Marshal(top)
	if err == nil {
		err = json.Unmarshal(b, &base)
	}
	if err != nil {
		panic(err) // numbers and strings are always JSON
	}
	return base
}
