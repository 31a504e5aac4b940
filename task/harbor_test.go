package task

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// harbor is a process of the reference harness's own code, asked one question
// a line.
type harbor struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startHarbor(t *testing.T) *harbor {
	t.Helper()
	python := os.Getenv("HARBOR_PYTHON")
	if python == "" {
		t.Skip("HARBOR_PYTHON does not name a Python with harbor installed")
	}
	cmd := exec.Command(python, "testdata/ask_harbor.py")
	cmd.Env = append(os.Environ(), "HARBOR_TELEMETRY=0", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("harbor: %v", err)
		}
	})
	return &harbor{in: in, out: bufio.NewReaderSize(out, 1<<20)}
}

type question struct {
	Op      string            `json:"op"`
	TOML    string            `json:"toml,omitempty"`
	Path    string            `json:"path,omitempty"`
	Dialect string            `json:"dialect,omitempty"`
	Text    string            `json:"text"`
	Paths   []string          `json:"paths,omitempty"`
	Hosts   []string          `json:"hosts,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Host    map[string]string `json:"host,omitempty"`
}

type answer struct {
	Error        string
	Config       map[string]any
	Valid        bool
	Digest       string
	DigestError  string `json:"digest_error"`
	Name         string
	Instructions []string
	Matches      []*bool
	Hosts        []string
	Env          map[string]string
}

func (h *harbor) ask(t *testing.T, q question) answer {
	t.Helper()
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.in.Write(append(b, '\n')); err != nil {
		t.Fatal(err)
	}
	line, err := h.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("harbor: %v", err)
	}
	var a answer
	d := json.NewDecoder(strings.NewReader(string(line)))
	d.UseNumber()
	if err := d.Decode(&a); err != nil {
		t.Fatalf("harbor answered %q: %v", line, err)
	}
	return a
}

// harborForm fills in Harbor's defaults, so that both sides can be compared.
func harborForm(c Config) map[string]any {
	m := map[string]any{
		"schema_version": cmpOr(c.SchemaVersion, SchemaVersion), "source": text(c.Source),
		"multi_step_reward_strategy": text(string(c.MultiStepReward)),
		"artifacts":                  artifactsForm(c.Artifacts), "task": nil,
		"agent": agentForm(c.Agent), "verifier": verifierForm(c.Verifier),
		"environment": environmentForm(c.Environment), "solution": map[string]any{"env": envForm(c.Solution.Env)},
		"steps": nil,
	}
	if p := c.Task; p != nil {
		authors := []any{}
		for _, a := range p.Authors {
			authors = append(authors, map[string]any{"name": a.Name, "email": text(a.Email)})
		}
		m["task"] = map[string]any{"name": p.Name, "version": text(p.Version), "description": p.Description, "authors": authors, "keywords": listForm(p.Keywords)}
	}
	if c.Steps != nil {
		steps := []any{}
		for _, s := range c.Steps {
			steps = append(steps, map[string]any{
				"name": s.Name, "agent": agentForm(s.Agent), "verifier": verifierForm(s.Verifier),
				"min_reward": rewardForm(s.MinReward), "healthcheck": healthForm(s.Healthcheck), "artifacts": artifactsForm(s.Artifacts),
			})
		}
		m["steps"] = steps
	}
	return m
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func number(f *float64, fallback any) any {
	if f == nil {
		return fallback
	}
	return *f
}

func whole(n *int64, fallback any) any {
	if n == nil {
		return fallback
	}
	return float64(*n)
}

func listForm(l []string) any {
	out := []any{}
	for _, s := range l {
		out = append(out, s)
	}
	return out
}

func envForm(env map[string]string) any {
	out := map[string]any{}
	for k, v := range env {
		out[k] = v
	}
	return out
}

func hostsForm(l []string) any {
	if len(l) == 0 {
		return nil
	}
	return listForm(l)
}

func rewardForm(m map[string]float64) any {
	if m == nil {
		return nil
	}
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func artifactsForm(list []Artifact) any {
	out := []any{}
	for _, a := range list {
		out = append(out, map[string]any{"source": a.Source, "destination": text(a.Destination), "exclude": listForm(a.Exclude), "service": text(a.Service)})
	}
	return out
}

func agentForm(a AgentConfig) any {
	return map[string]any{"timeout_sec": number(a.TimeoutSec, nil), "user": text(a.User), "network_mode": text(string(a.NetworkMode)), "allowed_hosts": hostsForm(a.AllowedHosts)}
}

func verifierForm(v VerifierConfig) any {
	m := map[string]any{
		"timeout_sec": number(v.TimeoutSec, 600.0), "user": text(v.User), "network_mode": text(string(v.NetworkMode)),
		"allowed_hosts": hostsForm(v.AllowedHosts), "env": envForm(v.Env),
		"environment_mode": text(string(v.EnvironmentMode)), "environment": nil,
	}
	if v.Environment != nil {
		m["environment"] = environmentForm(*v.Environment)
	}
	hooks := []any{}
	for _, h := range v.Collect {
		hooks = append(hooks, map[string]any{"command": h.Command, "service": cmpOr(h.Service, "main"), "timeout_sec": number(h.TimeoutSec, 60.0), "user": text(h.User)})
	}
	m["collect"] = hooks
	return m
}

func healthForm(h *Healthcheck) any {
	if h == nil {
		return nil
	}
	return map[string]any{
		"command": h.Command, "interval_sec": number(h.IntervalSec, 5.0), "timeout_sec": number(h.TimeoutSec, 30.0),
		"start_period_sec": number(h.StartPeriodSec, 0.0), "start_interval_sec": number(h.StartIntervalSec, 5.0), "retries": whole(h.Retries, 3.0),
	}
}

func environmentForm(e Environment) any {
	servers := []any{}
	for _, s := range e.MCPServers {
		m := map[string]any{"name": s.Name, "transport": cmpOr(string(s.Transport), "sse"), "url": text(s.URL), "command": text(s.Command), "args": listForm(s.Args)}
		if len(s.Headers) > 0 {
			m["headers"] = envForm(s.Headers)
		}
		servers = append(servers, m)
	}
	m := map[string]any{
		"network_mode": cmpOr(string(e.NetworkMode), "public"), "allowed_hosts": hostsForm(e.AllowedHosts),
		"build_timeout_sec": number(e.BuildTimeoutSec, 600.0), "docker_image": text(e.DockerImage), "os": cmpOr(string(e.OS), "linux"),
		"cpus": number(e.CPUs, nil), "memory_mb": whole(e.MemoryMB, nil), "storage_mb": whole(e.StorageMB, nil), "gpus": whole(e.GPUs, nil),
		"gpu_types": nil, "tpu": nil, "mcp_servers": servers, "env": envForm(e.Env), "skills_dir": text(e.SkillsDir),
		"healthcheck": healthForm(e.Healthcheck), "workdir": text(e.Workdir),
	}
	if e.GPUTypes != nil {
		m["gpu_types"] = listForm(e.GPUTypes)
	}
	if e.TPU != nil {
		m["tpu"] = map[string]any{"type": e.TPU.Type, "topology": e.TPU.Topology}
	}
	return m
}

// commonForm irons out what the two sides write differently and mean alike:
// ints and floats, a user's number, empty text and lists where null is meant,
// an artifact's short form.
func commonForm(v any, at string) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return string(v)
		}
		if at == "user" {
			return v.String()
		}
		return f
	case float64:
		switch {
		case math.IsNaN(v):
			return "nan"
		case math.IsInf(v, 0):
			return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"))
		}
		return v
	case string:
		switch at {
		case "source", "docker_image", "user", "workdir", "skills_dir", "url", "command", "email":
			if v == "" {
				return nil
			}
		}
		if at == "schema_version" && v == "" {
			return SchemaVersion
		}
		return v
	case map[string]any:
		out := map[string]any{}
		for k, item := range v {
			if k == "metadata" {
				continue
			}
			out[k] = commonForm(item, k)
		}
		return out
	case []any:
		if len(v) == 0 && (at == "allowed_hosts" || at == "steps") {
			return nil
		}
		out := []any{}
		for _, item := range v {
			if s, ok := item.(string); ok && at == "artifacts" {
				item = map[string]any{"source": s, "destination": nil, "exclude": []any{}, "service": nil}
			}
			out = append(out, commonForm(item, ""))
		}
		return out
	}
	if at == "min_reward" && v == nil {
		return nil
	}
	return v
}

// minRewards turns a plain number into the table that it means.
func minRewards(c map[string]any) {
	steps, _ := c["steps"].([]any)
	for _, s := range steps {
		if m, ok := s.(map[string]any); ok {
			switch v := m["min_reward"].(type) {
			case json.Number, string:
				m["min_reward"] = map[string]any{"reward": v}
			}
		}
	}
}

func compareConfig(t *testing.T, ours Config, theirs map[string]any) {
	t.Helper()
	minRewards(theirs)
	if d := cmp.Diff(commonForm(theirs, ""), commonForm(harborForm(ours), "")); d != "" {
		t.Errorf("configuration differs from Harbor's (-harbor +assay):\n%s", d)
	}
}

// values are what an author, or an attacker, may write for any field. Numbers
// past 64 bits are left out: Harbor takes them, assay refuses them.
var values = []string{
	`"60"`, `60`, `60.0`, `2048.0`, `2.5`, `true`, `false`, `""`, `"x"`, `"2G"`, `"1.5g"`, `"512m"`, `"700K"`, `"2GB"`, `"2048"`, `2048`, `-1`, `0`,
	`inf`, `nan`, `-inf`, `"inf"`, `"1_000"`, `"1__0"`, `"_1"`, `" 7 "`, `"+5"`, `"1e3"`, `"0x10"`, `"12.0"`, `"12.00"`, `"12."`, `".5"`, `"-0"`, `1979-05-27T07:32:00Z`, `07:32:00`,
	`[]`, `["a"]`, `["a.b.", " Example.COM "]`, `[1]`, `{}`, `{a="b"}`, `{a=1}`, `[{}]`, `[{a=1}]`, `"public"`, `"no-network"`, `"allowlist"`, `"Public"`,
	`"shared"`, `"separate"`, `"LINUX"`, `"windows"`, `"mean"`, `"final"`, `"stdio"`, `"http"`, `"sse"`, `"a/b"`, `"a/b/c"`, `"a/b..c"`, `"../x"`, `"/a/../b"`, `"/logs/x"`, `"2x4"`, `" 2x2x1 "`, `"0x2"`, `9223372036854775807`, `"yes"`, `"on"`, `1`, `1.0`, `"1"`, `"T"`, `2`,
	`[{name="s", url="u"}]`, `[{name="s", transport="http", url="u", headers={Authorization="Bearer ${T}"}}]`, `[{name="s", transport="stdio"}]`, `[{name="s", url="u", headers={X-Key="v"}}]`, `[{name="s", url="u", headers={X-Tokens="3"}}]`, `[{name="s", url="u", headers={X="${A:-b}"}}]`, `[{name="s", url="u", headers={X="${A_KEY:-b}"}}]`, `[{name="s", url="u", headers={X="${bad-name}"}}]`,
	`[{source="/a", destination="b"}]`, `[{source="/a", destination="/b"}]`, `[{source="a", service="db"}]`, `[{source="/a", service=" db "}]`, `[{source="/a", destination="manifest.json"}]`, `[{source="/a", destination="./"}]`, `[{command="c"}]`, `[{command="c", service="", timeout_sec="5", user=7}]`, `{command="c", retries="3"}`, `{type="v6e", topology="2x4"}`, `{type="", topology="2x4"}`,
	`["*.example.com","10.0.0.0/8","2001:DB8::/32"]`, `["10.0.0.1/8"]`, `["http://x"]`, `["a:80"]`, `["*.1.2.3.4"]`,
}

var fields = []string{
	"schema_version", "version", "source", "multi_step_reward_strategy", "artifacts", "steps", "metadata", "verifier", "environment", "agent", "task", "solution",
	"task.name", "task.version", "task.description", "task.authors", "task.keywords", "agent.timeout_sec", "agent.user", "agent.network_mode", "agent.allowed_hosts",
	"verifier.timeout_sec", "verifier.env", "verifier.user", "verifier.network_mode", "verifier.allowed_hosts", "verifier.environment_mode", "verifier.environment", "verifier.collect", "verifier.environment.memory", "verifier.environment.allow_internet",
	"solution.env", "environment.build_timeout_sec", "environment.docker_image", "environment.os", "environment.cpus", "environment.memory_mb", "environment.storage_mb", "environment.memory", "environment.storage", "environment.gpus", "environment.gpu_types", "environment.tpu",
	"environment.network_mode", "environment.allowed_hosts", "environment.allow_internet", "environment.env", "environment.workdir", "environment.skills_dir", "environment.healthcheck", "environment.mcp_servers",
}

// Each field with each value, and pairs of fields at random: valid here exactly
// when valid there, and read as the same.
func TestHarborReadsTheSameConfig(t *testing.T) {
	h := startHarbor(t)
	var docs []string
	for _, f := range fields {
		for _, v := range values {
			docs = append(docs, f+" = "+v+"\n")
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		doc := ""
		for range 2 + r.IntN(3) {
			doc += fields[r.IntN(len(fields))] + " = " + values[r.IntN(len(values))] + "\n"
		}
		docs = append(docs, doc)
	}
	for _, step := range []string{`"a"`, `"CON"`, `"con.x"`, `"a/b"`, `"."`, `" "`, `"a "`, `"a."`, `"é"`, `"a:b"`, `"com1"`, `"CONIN$"`, `3`, `"a\u0001"`} {
		docs = append(docs, "[[steps]]\nname = "+step+"\n")
		for _, v := range values {
			for _, f := range []string{"min_reward", "artifacts", "verifier.timeout_sec", "verifier.environment", "agent.user", "healthcheck"} {
				if step == `"a"` {
					docs = append(docs, "[[steps]]\nname = \"a\"\n"+f+" = "+v+"\n")
				}
			}
		}
	}
	docs = append(docs, "[[steps]]\nname=\"ß\"\n[[steps]]\nname=\"SS\"\n", "[[steps]]\nname=\"e\\u0301\"\n[[steps]]\nname=\"É\"\n")
	bad := 0
	for _, doc := range docs {
		a := h.ask(t, question{Op: "config", TOML: doc})
		c, err := ParseConfig([]byte(doc))
		if (a.Error == "") != (err == nil) {
			t.Errorf("harbor: %q, assay: %v, of\n%s", a.Error, err, doc)
			bad++
		} else if err == nil {
			before := t.Failed()
			compareConfig(t, c, a.Config)
			if t.Failed() && !before {
				t.Logf("of\n%s", doc)
				bad++
			}
		}
		if bad > 40 {
			t.Fatal("and more")
		}
	}
	t.Logf("%d documents", len(docs))
}

func TestHarborMatchesTheSamePaths(t *testing.T) {
	h := startHarbor(t)
	r := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"a", "b", "*", "**", "?", "[ab]", "[!a]", "[^b-]", "[a-", "[z-a]", "\\", "\\*", "!", "#", "/", "/", " ", ".", "a.c", "\\ ", "é", "[[:alpha:]]", "[]a]", "[\\]"}
	paths := []string{"a", "b", "a/", "a/b", "a/b/", "a/b/c", "b/a", "a.c", "ab", "aa/bb/a.c", "*", "#a", "!a", "é", " a", "a ", "a\n", "a\nb", "]", "[", "\\", "a/é/b", "a-", "-", ":]", "tests/x/a", "a\n/b"}
	bad := 0
	for i := range 6000 {
		var b strings.Builder
		for range 1 + r.IntN(3) {
			for range 1 + r.IntN(5) {
				b.WriteString(pieces[r.IntN(len(pieces))])
			}
			b.WriteString([]string{"\n", "\n", "\r\n", "\v", "\u2028"}[r.IntN(5)])
		}
		for name, dialect := range map[string]ignoreDialect{"basic": dialectBasic, "git": dialectGit} {
			a := h.ask(t, question{Op: "ignore", Dialect: name, Text: b.String(), Paths: paths})
			s, err := parseIgnore(b.String(), dialect)
			if (a.Error == "") != (err == nil) {
				t.Errorf("%d %s %q: harbor %q, assay %v", i, name, b.String(), a.Error, err)
				bad++
				continue
			}
			for j := range a.Matches {
				x, decided := s.match(paths[j])
				if decided != (a.Matches[j] != nil) || (decided && x != *a.Matches[j]) {
					t.Errorf("%s %q of %q: harbor %v, assay %v %v", name, b.String(), paths[j], fmt.Sprint(a.Matches[j]), x, decided)
					bad++
				}
			}
			if bad > 20 {
				t.Fatal("and more")
			}
		}
	}
}

func TestHarborNormalisesTheSameHosts(t *testing.T) {
	h := startHarbor(t)
	r := rand.New(rand.NewPCG(5, 6))
	pieces := []string{"a", "example", ".", ".com", "*.", "*", "1", "10.0.0.", "0", "/8", "/08", "/32", "/33", "/255.0.0.0", "/0.255.255.255", "/", ":", "::", "2001:db8", "fe80::1%eth0", "[", "]", " ", "-", "_", "É", "http://", "//", "K"}
	for range 4000 {
		s := ""
		for range 1 + r.IntN(4) {
			s += pieces[r.IntN(len(pieces))]
		}
		a := h.ask(t, question{Op: "hosts", Hosts: []string{s}})
		ours, err := NormalizeHosts([]string{s})
		if (a.Error == "") != (err == nil) || (err == nil && ours[0] != a.Hosts[0]) {
			t.Errorf("%q: harbor %v %q, assay %v %v", s, a.Hosts, a.Error, ours, err)
		}
	}
}

func TestHarborResolvesTheSameEnv(t *testing.T) {
	h := startHarbor(t)
	host := map[string]string{"A": "one", "B": ""}
	lookup := func(k string) (string, bool) { v, ok := host[k]; return v, ok }
	for _, v := range []string{"${A}", "${B}", "${C}", "${C:-x}", "${A:-x}", "${C:-}", "x${A}", "${A}x", "${A:-b}c}", "$A", "${}", "${A-b}", "${A:b}", "${ A}", "${C:-a\nb}", "${C:-${A}}"} {
		a := h.ask(t, question{Op: "env", Env: map[string]string{"K": v}, Host: host})
		ours, err := ResolveEnv(map[string]string{"K": v}, lookup)
		if (a.Error == "") != (err == nil) || (err == nil && ours[0] != "K="+a.Env["K"]) {
			t.Errorf("%q: harbor %v %q, assay %v %v", v, a.Env, a.Error, ours, err)
		}
	}
}

func TestHarborAgreesOnTheCorpus(t *testing.T) {
	h := startHarbor(t)
	dirs, err := filepath.Glob("testdata/corpus/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			abs, err := filepath.Abs(dir)
			if err != nil {
				t.Fatal(err)
			}
			agree(t, h, abs)
		})
	}
}

func agree(t *testing.T, h *harbor, dir string) {
	t.Helper()
	a := h.ask(t, question{Op: "dir", Path: dir})
	task, err := Load(dir)
	if task != nil && task.Format == FormatTerminalBench1 {
		return
	}
	if a.Valid != (err == nil) {
		t.Errorf("harbor: valid %v %s, assay: %v", a.Valid, a.Error, err)
	}
	digest, derr := Digest(dir)
	if digest != a.Digest {
		t.Errorf("digest: harbor %s %s, assay %s %v", a.Digest, a.DigestError, digest, derr)
	}
	if err != nil || !a.Valid {
		return
	}
	compareConfig(t, task.Config, a.Config)
	if task.Name != a.Name {
		t.Errorf("name: harbor %q, assay %q", a.Name, task.Name)
	}
	for i, s := range task.Steps {
		if s.Instruction != a.Instructions[i] {
			t.Errorf("instruction %d: harbor %q, assay %q", i, a.Instructions[i], s.Instruction)
		}
	}
}
