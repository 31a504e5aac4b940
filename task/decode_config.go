package task

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// decodeConfig reads a whole task.toml.
func (d *decoder) decodeConfig() Config {
	t := &table{d: d, m: d.doc.root}
	c := Config{
		SchemaVersion:   d.schemaVersion(t),
		Source:          t.text("source"),
		MultiStepReward: word(t, "multi_step_reward_strategy", false, RewardMean, RewardFinal),
		Artifacts:       d.artifacts(t, "artifacts"),
	}
	if sub, ok := t.sub("task"); ok {
		c.Task = d.pack(sub)
	}
	if sub, ok := t.sub("metadata"); ok {
		c.Metadata = d.metadata(sub)
	}
	if sub, ok := t.sub("agent"); ok {
		c.Agent = d.agent(sub)
	}
	if sub, ok := t.sub("verifier"); ok {
		c.Verifier = d.verifier(sub)
	}
	if sub, ok := t.sub("environment"); ok {
		c.Environment = d.environment(sub)
	}
	if sub, ok := t.sub("solution"); ok {
		c.Solution.Env = sub.textMap("env")
		d.envRemarks(sub, c.Solution.Env)
		sub.done()
	}
	t.list("steps", func(k key, v any) {
		if sub, ok := d.table(k, v); ok {
			c.Steps = append(c.Steps, d.step(sub))
		}
	})
	d.uniqueSteps(c.Steps)
	t.done()
	return c
}

// schemaVersion reads the version under its two names; the newer one wins. Its
// value is never checked.
func (d *decoder) schemaVersion(t *table) string {
	name := "schema_version"
	if v, ok := t.get("version"); ok {
		d.remark("legacy-field", key{"version"}, "rename it to schema_version", "version is the old name of schema_version")
		if _, both := t.m[name]; !both {
			t.known = append(t.known, name)
			return d.text(key{"version"}, v)
		}
	}
	return t.text(name)
}

// packageName is Harbor's ORG_NAME_PATTERN.
var packageName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*$`)

func (d *decoder) pack(t *table) *Package {
	p := &Package{Name: t.required("name")}
	if _, ok := t.m["name"].(string); ok && (!packageName.MatchString(p.Name) || strings.Contains(p.Name, "..")) {
		t.fault("name", "must be org/name of letters, digits, hyphens, underscores and dots, without \"..\", not %s", describe(p.Name))
	}
	p.Version = t.text("version")
	if v, ok := t.m["version"].(string); ok && v == "" {
		t.fault("version", "must not be empty")
	}
	p.Description = t.text("description")
	t.list("authors", func(k key, v any) {
		if sub, ok := d.table(k, v); ok {
			p.Authors = append(p.Authors, Author{Name: sub.required("name"), Email: sub.text("email")})
			sub.done()
		}
	})
	p.Keywords = t.texts("keywords")
	t.done()
	return p
}

func (d *decoder) agent(t *table) AgentConfig {
	a := AgentConfig{TimeoutSec: t.float("timeout_sec"), User: t.user()}
	a.NetworkMode, a.AllowedHosts = d.phaseNetwork(t)
	d.oddTimeout(t, "timeout_sec", a.TimeoutSec)
	t.done()
	return a
}

func (d *decoder) verifier(t *table) VerifierConfig {
	v := VerifierConfig{
		TimeoutSec:      t.float("timeout_sec"),
		User:            t.user(),
		EnvironmentMode: word(t, "environment_mode", false, EnvironmentShared, EnvironmentSeparate),
		Env:             t.textMap("env"),
	}
	v.NetworkMode, v.AllowedHosts = d.phaseNetwork(t)
	d.envRemarks(t, v.Env)
	if sub, ok := t.sub("environment"); ok {
		e := d.environment(sub)
		v.Environment = &e
		if v.EnvironmentMode == EnvironmentShared {
			t.fault("environment_mode", `"shared" contradicts [verifier.environment]; drop the table or say "separate"`)
		}
	}
	t.list("collect", func(k key, item any) {
		if sub, ok := d.table(k, item); ok {
			v.Collect = append(v.Collect, d.collect(sub))
		}
	})
	d.oddTimeout(t, "timeout_sec", v.TimeoutSec)
	t.done()
	return v
}

func (d *decoder) collect(t *table) CollectHook {
	h := CollectHook{
		Command:    t.required("command"),
		Service:    d.service(t),
		TimeoutSec: t.float("timeout_sec"),
		User:       t.user(),
	}
	d.oddTimeout(t, "timeout_sec", h.TimeoutSec)
	t.done()
	return h
}

// oddTimeout remarks on limits that Harbor accepts and no author means.
func (d *decoder) oddTimeout(t *table, name string, f *float64) {
	switch {
	case f == nil:
	case math.IsNaN(*f) || *f <= 0:
		d.remark("odd-timeout", t.key.with(name), "give a number of seconds above 0", "a limit of %v seconds ends the phase at once", *f)
	case math.IsInf(*f, 1):
		d.remark("odd-timeout", t.key.with(name), "leave it out where no limit is meant, or give a number", "an infinite limit is no limit")
	}
}

// serviceName is a Docker Compose service.
var serviceName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

func (d *decoder) service(t *table) string {
	if _, ok := t.m["service"]; !ok {
		t.known = append(t.known, "service")
		return ""
	}
	s := strings.TrimSpace(t.text("service"))
	if _, ok := t.m["service"].(string); ok && !serviceName.MatchString(s) {
		t.fault("service", "must be a Compose service name, not %s", describe(s))
	}
	return s
}

func (d *decoder) environment(t *table) Environment {
	e := Environment{
		DockerImage:     t.text("docker_image"),
		BuildTimeoutSec: t.float("build_timeout_sec"),
		OS:              word(t, "os", true, OSLinux, OSWindows),
		CPUs:            d.cpus(t),
		MemoryMB:        d.size(t, "memory", "memory_mb"),
		StorageMB:       d.size(t, "storage", "storage_mb"),
		GPUs:            t.integer("gpus"),
		GPUTypes:        t.texts("gpu_types"),
		Workdir:         t.text("workdir"),
		SkillsDir:       t.text("skills_dir"),
		Env:             t.textMap("env"),
	}
	if sub, ok := t.sub("tpu"); ok {
		e.TPU = d.tpu(sub)
	}
	if sub, ok := t.sub("healthcheck"); ok {
		e.Healthcheck = d.healthcheck(sub)
	}
	t.list("mcp_servers", func(k key, v any) {
		if sub, ok := d.table(k, v); ok {
			e.MCPServers = append(e.MCPServers, d.mcpServer(sub))
		}
	})
	d.baselineNetwork(t, &e)
	d.envRemarks(t, e.Env)
	d.oddTimeout(t, "build_timeout_sec", e.BuildTimeoutSec)
	t.done()
	return e
}

func (d *decoder) cpus(t *table) *float64 {
	f := t.float("cpus")
	if f != nil && (math.IsNaN(*f) || math.IsInf(*f, 0)) {
		t.fault("cpus", "must be a finite number")
		return nil
	}
	return f
}

// size reads a resource in MiB under its newer name, and as text with one unit
// letter under its older one. A bare number under the older name is dropped,
// as Harbor does.
func (d *decoder) size(t *table, old, name string) *int64 {
	v, ok := t.get(old)
	if !ok {
		return t.integer(name)
	}
	s, isText := v.(string)
	if !isText {
		d.remark("memory-number-dropped", t.key.with(old), "write "+name+" = <number of MiB>",
			"%s is dropped: %s takes text with a unit (\"2G\"), a bare number sets no limit", kindOf(v), old)
		return t.integer(name)
	}
	mb, ok := parseSize(s)
	if !ok {
		t.fault(old, "must be a number with one unit letter G, M or K (\"2G\"), not %s", describe(s))
		return nil
	}
	d.remark("legacy-field", t.key.with(old), "write "+name+" = "+strconv.FormatInt(mb, 10), "%s is the old spelling of %s", old, name)
	if newer, both := t.m[name]; both {
		if !equalNumber(newer, mb) {
			t.fault(old, "%q (%d MiB) contradicts %s = %s", s, mb, name, kindOf(newer))
		}
		return t.integer(name)
	}
	t.known = append(t.known, name)
	return &mb
}

// equalNumber compares as Python does: 2048.0 equals 2048, "2048" does not.
func equalNumber(v any, n int64) bool {
	switch v := v.(type) {
	case int64:
		return v == n
	case float64:
		return v == float64(n)
	case bool:
		return btoi(v) == n
	}
	return false
}

// parseSize reads "1.5g" as 1536 MiB.
func parseSize(s string) (mb int64, ok bool) {
	s = strings.ToUpper(strings.TrimSpace(s))
	if s == "" {
		return 0, false
	}
	factor := map[byte]float64{'G': 1024, 'M': 1, 'K': 1.0 / 1024}[s[len(s)-1]]
	f, ok := parseFloat(s[:len(s)-1])
	if factor == 0 || !ok || math.IsNaN(f*factor) || math.Abs(f*factor) >= 1<<62 {
		return 0, false
	}
	return int64(f * factor), true
}

var topology = regexp.MustCompile(`^[1-9][0-9]*(x[1-9][0-9]*)+$`)

func (d *decoder) tpu(t *table) *TPU {
	p := &TPU{Type: t.required("type"), Topology: strings.TrimSpace(t.required("topology"))}
	if v, ok := t.m["type"].(string); ok && v == "" {
		t.fault("type", "must not be empty")
	}
	if _, ok := t.m["topology"].(string); ok && !topology.MatchString(p.Topology) {
		t.fault("topology", "must be positive numbers joined by x (\"2x4\"), not %s", describe(p.Topology))
	}
	t.done()
	return p
}

func (d *decoder) healthcheck(t *table) *Healthcheck {
	h := &Healthcheck{
		Command:          t.required("command"),
		IntervalSec:      t.float("interval_sec"),
		TimeoutSec:       t.float("timeout_sec"),
		StartPeriodSec:   t.float("start_period_sec"),
		StartIntervalSec: t.float("start_interval_sec"),
		Retries:          t.integer("retries"),
	}
	t.done()
	return h
}

func (d *decoder) step(t *table) StepConfig {
	s := StepConfig{Name: t.required("name")}
	if _, ok := t.m["name"].(string); ok {
		if why := badStepName(s.Name); why != "" {
			t.fault("name", "%s: %s", describe(s.Name), why)
		}
	}
	if sub, ok := t.sub("agent"); ok {
		s.Agent = d.agent(sub)
	}
	if sub, ok := t.sub("verifier"); ok {
		s.Verifier = d.verifier(sub)
	}
	if sub, ok := t.sub("healthcheck"); ok {
		s.Healthcheck = d.healthcheck(sub)
	}
	s.MinReward = d.minReward(t)
	s.Artifacts = d.artifacts(t, "artifacts")
	t.done()
	return s
}

func (d *decoder) minReward(t *table) map[string]float64 {
	v, ok := t.get("min_reward")
	if !ok {
		return nil
	}
	k := t.key.with("min_reward")
	m, ok := v.(map[string]any)
	if !ok {
		if f := d.float(k, v); f != nil {
			return map[string]float64{"reward": *f}
		}
		return nil
	}
	out := make(map[string]float64, len(m))
	for _, name := range sortedKeys(m) {
		if f := d.float(k.with(name), m[name]); f != nil {
			out[name] = *f
		}
	}
	return out
}

func (d *decoder) uniqueSteps(steps []StepConfig) {
	seen := map[string]string{}
	for i, s := range steps {
		k := stepNameKey(s.Name)
		if first, ok := seen[k]; ok {
			d.fault(key{"steps"}.at(i).with("name"), "%q names the same directory as %q", s.Name, first)
			continue
		}
		seen[k] = s.Name
	}
}

// metadata keeps the free table and reads assay's part of it.
func (d *decoder) metadata(t *table) Metadata {
	var m Metadata
	for _, name := range sortedKeys(t.m) {
		if name == "assay" {
			if sub, ok := t.sub(name); ok {
				m.Assay = d.assay(sub)
			}
			continue
		}
		if m.Rest == nil {
			m.Rest = map[string]any{}
		}
		m.Rest[name] = t.m[name]
	}
	return m
}

func (d *decoder) assay(t *table) Assay {
	a := Assay{
		Grade:         word(t, "grade", false, GradePatch, GradeState),
		FallbackImage: t.text("fallback_image"),
		Protected:     t.texts("protected"),
		Answer:        t.texts("answer"),
		Verifier:      word(t, "verifier", false, VerifierSealed, VerifierSeparate, VerifierLive),
	}
	for _, list := range []struct {
		key   string
		paths []string
	}{{"protected", a.Protected}, {"answer", a.Answer}} {
		for i, p := range list.paths {
			if why := badPath(p); why != "" {
				d.fault(t.key.with(list.key).at(i), "%s: %s", describe(p), why)
			}
		}
	}
	for _, name := range sortedKeys(t.m) {
		switch name {
		case "grade", "fallback_image", "protected", "answer", "verifier":
			continue
		}
		if a.Rest == nil {
			a.Rest = map[string]any{}
		}
		a.Rest[name] = t.m[name]
	}
	return a
}

func badPath(p string) string {
	switch {
	case !strings.HasPrefix(p, "/"):
		return "must be an absolute path in the sandbox"
	case hasDotDot(p):
		return `must not contain ".."`
	case strings.ContainsRune(p, 0):
		return "must not contain a zero byte"
	}
	return ""
}
