package task

import (
	"fmt"
	"os"
	"path"
	"strings"
	"unicode/utf8"
)

// config finds settings that do something else than their author thinks.
func (l *linter) config() {
	c := &l.c
	if len(c.Steps) == 0 && c.MultiStepReward != RewardUnset {
		l.at("strategy-without-steps", key{"multi_step_reward_strategy"}, "remove it, or declare [[steps]]", "has no effect in a single-step task")
	}
	l.artifactOverlaps(key{"artifacts"}, c.Artifacts, nil)
	if len(c.Steps) == 0 {
		l.step(nil, nil)
	}
	for i := range c.Steps {
		k := key{"steps"}.at(i)
		l.step(&c.Steps[i], k)
		l.artifactOverlaps(k.with("artifacts"), c.Steps[i].Artifacts, c.Artifacts)
		if t := c.Verifier.TimeoutSec; c.Steps[i].Verifier.TimeoutSec == nil && t != nil && *t != defaultVerifierTimeout.Seconds() {
			l.at("step-verifier-timeout", k.with("verifier"), fmt.Sprintf("set timeout_sec = %v in [steps.verifier]", *t),
				"has no timeout_sec: it is 600 s there, not the task's %v s", *t)
		}
	}
	l.image()
	l.sidecars()
}

func (l *linter) step(s *StepConfig, k key) {
	user, at := l.c.Agent.User, key{"agent", "user"}
	verifier := key{"verifier"}
	if s != nil {
		user = cmpOr(s.Agent.User, user)
		at, verifier = k.with("agent").with("user"), k.with("verifier")
	}
	if name, _, _ := strings.Cut(user, ":"); name == "" || name == "root" || name == "0" {
		l.at("root-agent", at, "name a user of the image", "the agent works as root, or as the image says")
	}
	v := l.verifier(s)
	explicit := verifierMode(&l.c, s)
	own := l.c.Metadata.Assay.Verifier
	switch {
	case own == VerifierLive || (own == VerifierUnset && explicit == EnvironmentShared):
		l.at("live-verifier", verifier, `say verifier = "sealed" in [metadata.assay] unless a running process is judged`,
			"is graded beside the agent's live processes; such a result is never proved")
	case explicit == EnvironmentUnset && own == VerifierUnset:
		l.at("shared-verifier", verifier, `set environment_mode = "separate", or verifier = "sealed" in [metadata.assay]`,
			"runs in the agent's sandbox under Harbor")
	}
	if v.separate && v.env == nil && l.online(s) {
		l.at("verifier-online", verifier, `set network_mode = "no-network" in [verifier]`,
			"takes the public network of [environment] over")
	}
}

// online says whether a separate verifier without a table of its own has the
// public network.
func (l *linter) online(s *StepConfig) bool {
	mode := l.c.Environment.NetworkMode
	for _, m := range []NetworkMode{l.c.Verifier.NetworkMode, stepNetwork(s)} {
		if m != NetworkUnset {
			mode = m
		}
	}
	return mode == NetworkPublic || mode == NetworkUnset
}

func stepNetwork(s *StepConfig) NetworkMode {
	if s == nil {
		return NetworkUnset
	}
	return s.Verifier.NetworkMode
}

// artifactOverlaps compares the entries of one list with each other, with the
// logs, and with those that are collected before them.
func (l *linter) artifactOverlaps(k key, list, before []Artifact) {
	for i, a := range list {
		if src := "/" + strings.Trim(path.Clean(a.Source), "/"); overlap(src, "/logs/verifier") || overlap(src, "/logs/agent") {
			l.at("artifact-log-overlap", k.at(i), "choose a path outside of /logs/agent and /logs/verifier", "%s overlaps the protected logs", describe(a.Source))
		}
		for _, b := range append(append([]Artifact{{Source: "/logs/artifacts"}}, before...), list[:i]...) {
			if covers(b, a) || !overlap(output(b), output(a)) {
				continue
			}
			l.at("overlapping-artifacts", k.at(i), "give it a destination of its own", "%s lands in artifacts/%s, where %s lands too; it is skipped", describe(a.Source), output(a), describe(b.Source))
			break
		}
	}
}

// output is where an artifact lies below artifacts/.
func output(a Artifact) string {
	var parts []string
	for p := range strings.SplitSeq(cmpOr(a.Destination, a.Source), "/") {
		if p != "" && p != "." && p != ".." {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "/")
}

func overlap(a, b string) bool {
	return within(a, b) || within(b, a)
}

// within says whether a is b or below it; "" and "/" contain everything.
func within(a, b string) bool {
	b = strings.TrimSuffix(b, "/")
	return b == "" || a == b || strings.HasPrefix(a, b+"/")
}

// covers says whether an earlier entry brings the later one along at the same
// place.
func covers(a, b Artifact) bool {
	if cmpOr(a.Service, mainService) != cmpOr(b.Service, mainService) {
		return false
	}
	src, below := strings.TrimSuffix(a.Source, "/"), strings.TrimSuffix(b.Source, "/")
	if src == below && output(a) == output(b) {
		return strings.Join(a.Exclude, "\x00") == strings.Join(b.Exclude, "\x00")
	}
	rest, ok := strings.CutPrefix(below, src+"/")
	return ok && len(a.Exclude) == 0 && output(b) == path.Join(output(a), rest)
}

// image looks for what the agent's sandbox is made from.
func (l *linter) image() {
	if l.c.Environment.DockerImage != "" || l.c.Metadata.Assay.FallbackImage != "" || !l.t.isDir("environment") {
		return
	}
	entries, err := os.ReadDir(l.t.path("environment"))
	if err != nil {
		return // reported where files are walked
	}
	for _, e := range entries {
		switch n := e.Name(); {
		case n == "Dockerfile", strings.HasSuffix(n, "compose.yaml"), strings.HasSuffix(n, ".def"), strings.HasPrefix(n, "devbox"):
			return
		}
	}
	l.add("no-image", "environment", Position{}, "add a Dockerfile, set [environment].docker_image, or name a fallback_image in [metadata.assay]",
		"holds no Dockerfile and no Compose file, and no image is named")
}

// sidecars finds services that cannot exist.
func (l *linter) sidecars() {
	if l.t.isFile("environment/docker-compose.yaml") {
		return
	}
	check := func(k key, service string) {
		if service != "" && service != mainService {
			l.at("sidecar-without-compose", k.with("service"), "add environment/docker-compose.yaml with it", "there is no service %q: the task has no Compose file", service)
		}
	}
	artifacts := func(k key, list []Artifact) {
		for i, a := range list {
			check(k.at(i), a.Service)
		}
	}
	hooks := func(k key, v *VerifierConfig) {
		for i, h := range v.Collect {
			check(k.with("collect").at(i), h.Service)
		}
	}
	artifacts(key{"artifacts"}, l.c.Artifacts)
	hooks(key{"verifier"}, &l.c.Verifier)
	for i := range l.c.Steps {
		k := key{"steps"}.at(i)
		artifacts(k.with("artifacts"), l.c.Steps[i].Artifacts)
		hooks(k.with("verifier"), &l.c.Steps[i].Verifier)
	}
}

// instructions looks at what the agent reads.
func (l *linter) instructions() {
	names := []string{"instruction.md"}
	if len(l.c.Steps) > 0 {
		if l.t.exists(names[0]) {
			l.add("unused-instruction", names[0], Position{}, "remove it", "is not read: each step has its own")
		}
		names = nil
		for _, s := range l.c.Steps {
			names = append(names, stepDir(s.Name)+"instruction.md")
		}
	}
	for _, name := range names {
		text, err := l.t.readText(name, maxTextFile)
		switch {
		case err != nil && l.t.exists(name):
			l.failed(ruleInvalidFiles, name, err)
		case err == nil && strings.TrimSpace(stripCanary(text)) == "":
			l.add("instruction-empty", name, Position{1, 1}, "say what the agent is to do", "is empty")
		}
	}
}

// files walks the whole directory once, following nothing.
func (l *linter) files() {
	entries := 0
	var visit func(rel string) bool
	visit = func(rel string) bool {
		list, err := os.ReadDir(l.t.path(rel))
		if err != nil {
			l.add(ruleInvalidFiles, rel, Position{}, "make it readable", "cannot be read: %v", reason(err))
			return true
		}
		for _, e := range list {
			at := path.Join(rel, e.Name())
			if entries++; entries > maxTreeEntries {
				l.add(ruleInvalidFiles, rel, Position{}, "", "the task has more than %d files", maxTreeEntries)
				return false
			}
			l.entry(at, e)
			if e.IsDir() && e.Name() != ".git" && !visit(at) {
				return false
			}
		}
		return true
	}
	visit(".")
}

func (l *linter) entry(rel string, e os.DirEntry) {
	name := e.Name()
	switch {
	case !utf8.ValidString(name):
		l.add(ruleInvalidFiles, rel, Position{}, "rename it", "its name is not UTF-8: the task cannot be hashed")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		l.add(ruleInvalidFiles, rel, Position{}, "rename it", "its name holds a control character")
	}
	mode := e.Type()
	switch {
	case mode.IsRegular():
		if fi, err := e.Info(); err == nil && fi.Size() > maxDataFile {
			l.add(ruleInvalidFiles, rel, Position{}, "make it smaller, or build it in the image", "holds %s, more than the %s a file of a task may hold", bytesWord(fi.Size()), bytesWord(maxDataFile))
		}
	case mode&os.ModeSymlink != 0:
		if _, err := l.t.inside(rel); err != nil {
			l.add(ruleInvalidFiles, rel, Position{}, "replace the link by the file itself", "%v", err)
		}
	case !mode.IsDir():
		l.add(ruleInvalidFiles, rel, Position{}, "only files, directories and links belong into a task", "is %s", modeWord(mode))
	}
	parts := strings.Split(rel, "/")
	if name == ignoreName && !inScope(parts, false) {
		l.add("harborignore-out-of-place", rel, Position{}, "move it below tests/ or solution/; for the digest use the root .gitignore", "is obeyed only below tests/ and solution/")
	}
	if len(parts) == 2 && parts[0] == "steps" && mode.IsDir() && len(l.c.Steps) > 0 && !l.named(name) {
		l.add("step-directory-unused", rel, Position{}, "declare it in [[steps]], or remove it", "is no declared step; it is hashed and never used")
	}
}

func (l *linter) named(step string) bool {
	for _, s := range l.c.Steps {
		if s.Name == step {
			return true
		}
	}
	return false
}
