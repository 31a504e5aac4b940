package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/egress"
	"assay/internal/gateway"
	"assay/internal/store"
	"assay/trial"
)

// StatementFile is the name of a job's egress statement.
const StatementFile = "egress.json"

// Statement says what left the machine for a job, by phase and arm. Numbers
// come from ledgers that the harness kept; what has no ledger says so.
type Statement struct {
	V       int    `json:"v"`
	Job     string `json:"job"`
	Zero    bool   `json:"zero"` // nothing left this machine
	Install Way    `json:"install"`
	Build   Way    `json:"build"`
	Arms    []Flow `json:"arms"`
	Method  string `json:"files_method"` // how the files in prompts were found
}

// Flow is what left for the trials of one arm.
type Flow struct {
	Arm    Arm        `json:"arm"`
	Trials int        `json:"trials"`
	Run    Way        `json:"run"`
	Grade  Way        `json:"grade"`
	Model  ModelFlow  `json:"model"`
	Files  []FileSeen `json:"files_in_prompts"` // at most 1,000 of FilesN
	FilesN int        `json:"files_in_prompts_count"`
}

// Way is the traffic of one phase.
type Way struct {
	Hosts       []HostFlow `json:"hosts"`
	Connections int64      `json:"connections"`
	Refused     int64      `json:"refused"`
	Sent        int64      `json:"sent_bytes"`
	Received    int64      `json:"received_bytes"`
	Partial     bool       `json:"partial,omitempty"` // lines of a ledger are missing: lower bounds
	Note        string     `json:"note,omitempty"`
}

// HostFlow is the traffic with one host.
type HostFlow struct {
	Host        string `json:"host"`
	Connections int64  `json:"connections"`
	Refused     int64  `json:"refused,omitempty"`
	Sent        int64  `json:"sent_bytes"`
	Received    int64  `json:"received_bytes"`
}

// ModelFlow is what was said to models. The gateway sends it from the host, so
// that it is in no sandbox's ledger.
type ModelFlow struct {
	Calls    int      `json:"calls"`
	Sent     int64    `json:"sent_bytes"` // as the agent sent it, before any translation
	Received int64    `json:"received_bytes"`
	Models   []string `json:"models"`
	Hosts    []string `json:"hosts"`
	Away     int      `json:"calls_off_this_machine"`
	Unsent   int      `json:"calls_not_sent"` // refused by the gateway, or answered by it
	Partial  bool     `json:"partial,omitempty"`
}

// FileSeen is a file whose text was in a tool's output that went to a model.
type FileSeen struct {
	Path   string `json:"path"`
	Trials int    `json:"trials"`
}

const method = "paths named by the tool calls whose output the agent was shown (see docs/trajectories.md); " +
	"contents are not compared, and what a program printed of files that no call names is not seen"

// State reads what left the machine for a job.
func State(v *store.View) (*Statement, error) {
	s := &Statement{V: 1, Job: v.Name, Method: method, Arms: []Flow{}}
	s.Install = Way{Hosts: []HostFlow{}, Note: "a job installs no agent: they come from local layers (see assay agent install)"}
	build := newTotals()
	if err := build.records(filepath.Join(v.Dir, store.StatesDir)); err != nil {
		return nil, err
	}
	build.fetched(v.Events)
	s.Build = build.way()
	for _, arm := range Arms(v) {
		f, err := flow(v, arm)
		if err != nil {
			return nil, err
		}
		s.Arms = append(s.Arms, f)
	}
	s.Zero = s.Build.zero()
	for _, f := range s.Arms {
		s.Zero = s.Zero && f.Run.zero() && f.Grade.zero() && f.Model.Away == 0 && !f.Model.Partial
	}
	return s, nil
}

func (w Way) zero() bool {
	return w.Connections == 0 && w.Sent == 0 && w.Received == 0 && !w.Partial
}

func flow(v *store.View, arm Arm) (Flow, error) {
	f := Flow{Arm: arm}
	run, grade := newTotals(), newTotals()
	m := newModels()
	files := map[string]int{}
	for _, t := range v.Trials {
		if (Arm{t.Agent, t.Model}) != arm {
			continue
		}
		f.Trials++
		for _, at := range append([]*store.Trial{t}, earlier(v, t)...) {
			if err := f.add(at, run, grade, m, files); err != nil {
				return f, fmt.Errorf("egress of trial %q: %w", t.Name, err)
			}
		}
	}
	f.Run, f.Grade, f.Model = run.way(), grade.way(), m.flow()
	f.Files, f.FilesN = topFiles(files), len(files)
	return f, nil
}

// add reads the ledgers of one attempt. An agent's own files are copied beside
// the harness's, so that a ledger counts only where the record says that there
// was one: without a network or a model it would be a forgery.
func (f *Flow) add(t *store.Trial, run, grade *totals, m *models, files map[string]int) error {
	done, r := t.Status == store.TrialFinished, t.Record
	for _, base := range bases(t) {
		if !done || open(r.Modes.Network) {
			if err := run.ledger(t, base+store.AgentDir+"/"+ledgerFile); err != nil {
				return err
			}
		}
		if !done || open(r.Modes.VerifierNetwork) {
			if err := grade.ledger(t, base+store.VerifierDir+"/"+ledgerFile); err != nil {
				return err
			}
		}
	}
	if done && r.Calls == nil {
		return nil
	}
	before := m.f.Calls
	bad, err := modelCalls(t, m.add)
	if err != nil {
		return err
	}
	m.f.Partial = m.f.Partial || bad > 0
	if m.f.Calls == before {
		return nil // nothing that it was shown went to a model
	}
	for p := range filesShown(t) {
		files[p]++
	}
	return nil
}

func open(network string) bool { return network != "" && network != "none" }

// earlier are the attempts that t replaced, as far as they were kept.
func earlier(v *store.View, t *store.Trial) (all []*store.Trial) {
	for _, r := range t.Replaced {
		if r.Kept == "" || !filepath.IsLocal(r.Kept) {
			continue
		}
		dir := filepath.Join(v.Dir, r.Kept)
		old, err := store.ReadTrial(dir)
		if err != nil {
			old = &store.Trial{Name: t.Name, Dir: dir} // it left no result, and may have left a ledger
		}
		all = append(all, old)
	}
	return all
}

// totals sum up ledgers.
type totals struct {
	hosts map[string]*HostFlow
	w     Way
}

func newTotals() *totals { return &totals{hosts: map[string]*HostFlow{}} }

// maxHosts bounds the list of hosts; what does not fit is counted under "other".
const maxHosts = 500

func (x *totals) host(name string) *HostFlow {
	if len(name) > 255 {
		name = name[:255]
	}
	h := x.hosts[name]
	if h == nil && len(x.hosts) >= maxHosts {
		name = "(others)"
		h = x.hosts[name]
	}
	if h == nil {
		h = &HostFlow{Host: name}
		x.hosts[name] = h
	}
	return h
}

func (x *totals) add(host string, connections, refused, sent, received int64) {
	h := x.host(host)
	h.Connections += connections
	h.Refused += refused
	h.Sent += sent
	h.Received += received
	x.w.Connections += connections
	x.w.Refused += refused
	x.w.Sent += sent
	x.w.Received += received
}

func (x *totals) ledger(t *store.Trial, name string) error {
	bad, err := lines(t, name, func(line []byte) bool {
		var e struct {
			egress.Entry
			Unwritten int64 `json:"unwritten"`
		}
		if json.Unmarshal(line, &e) != nil {
			return false
		}
		switch {
		case e.Unwritten > 0:
			x.w.Partial = true
		case e.Verdict == egress.Refused:
			x.add(e.Host, 0, 1, 0, 0)
		case e.Via == egress.ViaDNS: // answered by the gate itself
		default:
			x.add(e.Host, 1, 0, e.Sent, e.Received)
		}
		return true
	})
	x.w.Partial = x.w.Partial || bad > 0
	return err
}

func (x *totals) way() Way {
	x.w.Hosts = []HostFlow{}
	for _, h := range x.hosts {
		x.w.Hosts = append(x.w.Hosts, *h)
	}
	slices.SortFunc(x.w.Hosts, func(a, b HostFlow) int { return strings.Compare(a.Host, b.Host) })
	return x.w
}

// maxRecord bounds the record of one build.
const maxRecord = 16 << 20

// records adds what the job's own builds reached.
func (x *totals) records(dir string) error {
	root, err := os.OpenRoot(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("records of builds: %w", err)
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("records of builds: %w", err)
	}
	defer d.Close()
	entries, err := d.ReadDir(10_000)
	if err != nil && err != io.EOF {
		return fmt.Errorf("records of builds: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "build-") || !strings.HasSuffix(e.Name(), ".json") || !e.Type().IsRegular() {
			continue
		}
		if err := x.record(root, e.Name()); err != nil {
			return fmt.Errorf("record of a build %s: %w", filepath.Join(dir, e.Name()), err)
		}
	}
	return nil
}

func (x *totals) record(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var r struct {
		Reached []struct {
			Host                                 string
			Connections, Refused, Sent, Received int64
		}
	}
	if err := json.NewDecoder(io.LimitReader(f, maxRecord)).Decode(&r); err != nil {
		return err
	}
	for _, h := range r.Reached {
		x.add(h.Host, h.Connections, h.Refused, h.Sent, h.Received)
	}
	return nil
}

// fetched adds images that came from registries. An event tells the bytes that
// came; what the requests themselves took is not recorded.
func (x *totals) fetched(events []trial.Event) {
	for _, e := range events {
		var m trial.ImageMark
		if e.Kind != trial.ImageReady || json.Unmarshal(e.Data, &m) != nil || m.Total <= 0 || m.Error != "" {
			continue
		}
		x.add(registryOf(m.Name), 1, 0, 0, m.Total)
	}
}

// registryOf is the host of an image's name; Docker Hub's names have none.
func registryOf(name string) string {
	first, _, ok := strings.Cut(name, "/")
	if ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return first
	}
	return "docker.io"
}

// models sum up calls.
type models struct {
	f            ModelFlow
	names, hosts map[string]bool
}

func newModels() *models { return &models{names: map[string]bool{}, hosts: map[string]bool{}} }

func (m *models) add(c gateway.Call) {
	m.f.Calls++
	m.f.Sent += c.Bytes
	m.f.Received += c.Answered
	if c.Model != "" && len(m.names) < maxHosts {
		m.names[c.Model] = true
	}
	switch {
	case c.Host == "":
		m.f.Unsent++
	case !here(c.Host):
		m.f.Away++
	}
	if c.Host != "" && len(m.hosts) < maxHosts {
		m.hosts[c.Host] = true
	}
}

func (m *models) flow() ModelFlow {
	m.f.Models, m.f.Hosts = keys(m.names), keys(m.hosts)
	return m.f
}

func keys(set map[string]bool) []string {
	all := []string{}
	for k := range set {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// here says whether a host is this machine, or the program itself.
func here(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == gateway.InProcess || strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.Unmap().IsLoopback()
}

// filesShown are the files that a trial's tool calls read, with an output.
func filesShown(t *store.Trial) map[string]bool {
	all := map[string]bool{}
	for _, s := range t.Steps {
		doc, err := t.Trajectory(s.Step)
		if err != nil || doc == nil {
			continue // its trial's page tells
		}
		for _, d := range doc.All() {
			for _, a := range d.Actions() {
				for _, f := range a.Seen {
					if f != "" && strings.TrimSpace(a.Output) != "" && !strings.Contains(a.Output, f+": No such file") {
						all[f] = true
					}
				}
			}
		}
	}
	return all
}

const maxFiles = 1000

func topFiles(files map[string]int) []FileSeen {
	all := []FileSeen{}
	for p, n := range files {
		all = append(all, FileSeen{p, n})
	}
	slices.SortFunc(all, func(a, b FileSeen) int {
		if a.Trials != b.Trials {
			return b.Trials - a.Trials
		}
		return strings.Compare(a.Path, b.Path)
	})
	return all[:min(len(all), maxFiles)]
}
