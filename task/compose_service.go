package task

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// Compose is what a task's Compose file asks for, with variables replaced.
type Compose struct {
	File   string // relative to the task
	Main   Service
	Beside []Service // in the order of their names
	Notes  []string  // what the file says and a set of containers does otherwise
}

// Service is one service of a Compose file. For the agent's own only those
// fields count that do not say which program it runs: the agent works in it.
type Service struct {
	Name string
	Position
	Image      string // as written, MainImage for the agent's own image; wins when Build is nil
	Build      *ServiceBuild
	Entrypoint []string // nil: the image's
	Command    []string // nil: the image's, unless Entrypoint is set
	Env        []string // "KEY=value", sorted
	Workdir    string
	User       string
	Hostname   string
	Aliases    []string // further names on the network
	Hosts      []string // "name:address"
	After      []After
	Health     *ServiceHealth // nil: the image's
	Volumes    []ServiceVolume
	Files      []ServiceFile
	Tmpfs      []string
	Restart    string // "", "always" or "on-failure"
	MemBytes   int64
	ShmBytes   int64
	CPUs       float64
	Pids       int64
	Sysctls    map[string]string // of the network only
}

// MainImage stands for the image of the agent's own service where another
// service runs on it, too.
const MainImage = "assay/main"

// ServiceBuild says how a service's image is built.
type ServiceBuild struct {
	Dir        string // on the host, absolute, in the task
	Dockerfile string // relative to Dir; empty: "Dockerfile"
	Target     string
	Args       map[string]string
}

// After is a service that must come first.
type After struct {
	Service   string
	Condition Condition
}

// Condition is what is waited for.
type Condition string

const (
	Started   Condition = "service_started"
	Healthy   Condition = "service_healthy"
	Completed Condition = "service_completed_successfully"
)

// ServiceHealth is a health check. Zero durations and retries are Docker's
// defaults; no Test means none.
type ServiceHealth struct {
	Test                                          []string // "CMD" and arguments, or "CMD-SHELL" and a line
	Interval, Timeout, StartPeriod, StartInterval time.Duration
	Retries                                       int
}

// ServiceVolume is a volume that services of one trial share.
type ServiceVolume struct {
	Name     string // empty: the service's alone
	Target   string
	ReadOnly bool
}

// ServiceFile is a file or directory of the task that is copied into a service
// before it starts: what the Compose file mounts.
type ServiceFile struct {
	Source string // on the host, absolute
	Target string
}

// ComposeError is what a Compose file asks for and does not get.
type ComposeError struct {
	File string
	Position
	Service string // empty: the file as a whole
	Key     string
	Why     string
}

func (e *ComposeError) Error() string {
	s := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Service != "" {
		s += fmt.Sprintf("service %q: ", e.Service)
	}
	return s + e.Key + ": " + e.Why
}

const (
	maxServices = 32
	maxPerList  = 256 // entries of any one list of a service
)

// composeFile is where a task keeps it.
func (t *Task) composeFile() (dir, file string) {
	if t.Format == FormatTerminalBench1 {
		return ".", legacyCompose
	}
	return "environment", "environment/" + legacyCompose
}

// Compose reads the task's Compose file as a set of containers is made of it;
// nil when the task has none. env is what the task's own variables are, of
// which the file may name some; no variable of this machine is read. All that
// is refused is in the error, by file and line.
func (t *Task) Compose(env []string) (*Compose, error) {
	tr, err := openTree(t.Dir)
	if err != nil {
		return nil, err
	}
	dir, file := t.composeFile()
	if !tr.exists(file) {
		if _, err := tr.stat(file); err != nil && !isMissing(err) {
			return nil, err
		}
		return nil, nil
	}
	text, err := tr.readText(file, maxConfigFile)
	if err != nil {
		return nil, err
	}
	doc, err := parseCompose(file, text)
	if err != nil {
		return nil, err
	}
	r := &composeReader{t: t, tr: tr, dir: dir, doc: doc, out: Compose{File: file}}
	if r.vars, err = t.composeVars(tr, dir, env); err != nil {
		return nil, err
	}
	r.all()
	if err := r.err(); err != nil {
		return nil, err
	}
	return &r.out, nil
}

func isMissing(err error) bool {
	for e := err; e != nil; {
		if e == fs.ErrNotExist {
			return true
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		e = u.Unwrap()
	}
	return false
}

// composeReader turns a document into a set of services and collects what is
// refused.
type composeReader struct {
	t       *Task
	tr      *tree
	dir     string // of the file, relative to the task
	doc     *document
	vars    *composeVars
	out     Compose
	service string // being read
	faults  []*ComposeError
}

func (r *composeReader) refuse(k key, format string, args ...any) {
	name := k
	if len(k) > 2 && k[0] == "services" {
		name = k[2:]
	}
	r.faults = append(r.faults, &ComposeError{File: r.doc.file, Position: r.doc.place(k), Service: r.service, Key: name.String(), Why: fmt.Sprintf(format, args...)})
}

func (r *composeReader) note(format string, args ...any) {
	n := fmt.Sprintf(format, args...)
	if !slices.Contains(r.out.Notes, n) && len(r.out.Notes) < 50 {
		r.out.Notes = append(r.out.Notes, n)
	}
}

const maxFaults = 10

// err joins what was refused, in the order of the file.
func (r *composeReader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b *ComposeError) int { return (a.Line-b.Line)*100000 + a.Column - b.Column })
	return composeErrors(r.faults)
}

type composeErrors []*ComposeError

func (e composeErrors) Error() string {
	var lines []string
	for _, f := range e[:min(len(e), maxFaults)] {
		lines = append(lines, f.Error())
	}
	if n := len(e) - maxFaults; n > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(lines, "\n")
}

func (e composeErrors) Unwrap() []error {
	all := make([]error, len(e))
	for i, f := range e {
		all[i] = f
	}
	return all
}

func (r *composeReader) all() {
	services, ok := r.doc.root["services"].(map[string]any)
	if !ok {
		if r.doc.root["services"] != nil {
			r.refuse(key{"services"}, "must be a mapping")
		}
		services = map[string]any{}
	}
	if len(services) > maxServices {
		r.refuse(key{"services"}, "%d services are more than %d", len(services), maxServices)
		return
	}
	r.top()
	main := mainService
	if r.t.Format == FormatTerminalBench1 {
		main = legacyService(services)
	}
	for _, name := range sortedKeys(services) {
		k := key{"services", name}
		r.service = name
		if !composeName(name) {
			r.refuse(k, "a service's name is made of letters, digits, dots, hyphens and underscores, and begins with a letter or digit")
			continue
		}
		m, ok := services[name].(map[string]any)
		if !ok && services[name] != nil {
			r.refuse(k, "must be a mapping, not %s", kindOf(services[name]))
			continue
		}
		if len(asList(m["profiles"])) > 0 && name != main {
			r.note("service %q is not started: it belongs to a profile", name)
			continue
		}
		s := Service{Name: name, Position: r.doc.place(k)}
		r.read(k, m, &s)
		switch {
		case name == main:
			s.Name = mainService
			if name != mainService {
				s.Aliases = append(s.Aliases, name)
			}
			r.out.Main = s
		case s.Image == "" && s.Build == nil:
			r.refuse(k, "has neither image nor build")
		default:
			r.out.Beside = append(r.out.Beside, s)
		}
	}
	r.service = ""
	if r.out.Main.Name == "" {
		r.out.Main.Name = mainService
	}
	r.order(main)
}

func composeName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= 63 && strings.Trim(s, letters+"_.-") == "" && strings.Contains(letters, s[:1])
}

// top looks at what stands beside the services.
func (r *composeReader) top() {
	for _, name := range sortedKeys(r.doc.root) {
		k := key{name}
		switch v := r.doc.root[name]; {
		case slices.Contains([]string{"services", "name", "version"}, name), strings.HasPrefix(name, "x-"):
		case name == "volumes" || name == "networks":
			m, _ := v.(map[string]any)
			for _, n := range sortedKeys(m) {
				r.declared(k.with(n), name, n, m[n])
			}
			if name == "networks" && len(m) > 1 {
				r.note("the networks %s are one: every service reaches every other", strings.Join(sortedKeys(m), ", "))
			}
		case name == "secrets" || name == "configs": // refused where a service asks for one
		default:
			r.refuse(k, "is not read; write what it stands for into this file")
		}
	}
}

// declared looks at a volume's or network's own entry.
func (r *composeReader) declared(k key, what, name string, v any) {
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		r.refuse(k, "must be a mapping, not %s", kindOf(v))
		return
	}
	for _, f := range sortedKeys(m) {
		switch {
		case f == "labels" || f == "name" || strings.HasPrefix(f, "x-"):
		case f == "driver" && what == "volumes" && r.text(k.with(f), m[f]) == "local",
			f == "driver" && what == "networks" && slices.Contains([]string{"bridge", "default", ""}, r.text(k.with(f), m[f])):
		case what == "networks" && slices.Contains([]string{"internal", "attachable", "enable_ipv6", "enable_ipv4", "ipam"}, f):
			if f == "ipam" {
				r.note("network %q: addresses are the engine's own choice, not those of ipam", name)
			}
		case f == "external" && m[f] == false:
		case f == "external":
			r.refuse(k.with(f), "what is outside of the task is not reached: every trial has %s of its own", what)
		default:
			r.refuse(k.with(f), "is not supported: a %s is an ordinary one of the engine", strings.TrimSuffix(what, "s"))
		}
	}
}

// order checks what services wait for.
func (r *composeReader) order(main string) {
	after := map[string][]After{mainService: r.out.Main.After}
	place := map[string]string{mainService: main}
	for _, s := range r.out.Beside {
		after[s.Name], place[s.Name] = s.After, s.Name
	}
	names := slices.Sorted(maps.Keys(after))
	rename := func(list []After) {
		for i := range list {
			if list[i].Service == main {
				list[i].Service = mainService
			}
		}
	}
	for _, n := range names {
		rename(after[n])
	}
	state := map[string]int{}
	var visit func(string) bool
	visit = func(n string) bool {
		switch state[n] {
		case 1:
			return false
		case 2:
			return true
		}
		state[n] = 1
		ok := true
		for _, a := range after[n] {
			k := key{"services", place[n], "depends_on", a.Service}
			r.service = place[n]
			if _, known := after[a.Service]; !known {
				r.refuse(k, "there is no service %q", a.Service)
			} else if n != mainService && a.Service == mainService {
				r.refuse(k, "no service waits for the agent's own: it comes last")
			} else if !visit(a.Service) {
				r.refuse(k, "the services wait for each other")
				ok = true // said once
			}
		}
		state[n] = 2
		return ok
	}
	for _, n := range names {
		visit(n)
	}
	r.service = ""
}
