package task

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// sources looks into scripts, Dockerfiles and Compose files.
func (l *linter) sources() {
	steps := []*StepConfig{nil}
	if len(l.c.Steps) > 0 {
		steps = nil
		for i := range l.c.Steps {
			steps = append(steps, &l.c.Steps[i])
		}
	}
	seen := map[string]bool{}
	once := func(rel string, check func(string)) {
		if !seen[rel] && l.t.isFile(rel) {
			seen[rel] = true
			check(rel)
		}
	}
	solved := true
	for _, s := range steps {
		v := l.verifier(s)
		if script, ok := l.script(s, "tests", "test", v.os); ok && v.os != OSWindows {
			once(script, l.verifierScript)
		}
		solve, ok := l.script(s, "solution", "solve", l.c.Environment.OS)
		if solved = solved && ok; ok && l.c.Environment.OS != OSWindows {
			once(solve, func(rel string) { l.anyScript(rel) })
		}
		if v.dir != "" {
			once(v.dir+"/Dockerfile", func(rel string) { l.dockerfile(rel, v.dir == "environment") })
			once(v.dir+"/docker-compose.yaml", l.compose)
		}
		if s != nil {
			once(stepDir(s.Name)+"workdir/setup.sh", func(rel string) { l.anyScript(rel) })
		}
	}
	if !solved {
		l.add("no-solution", "", Position{}, "add solution/solve.sh", "has no gold solution: it cannot be proved")
	}
	once("environment/Dockerfile", func(rel string) { l.dockerfile(rel, true) })
	once("environment/docker-compose.yaml", l.compose)
}

// anyScript looks at how a script begins and ends its lines. Scripts are executed
// directly, so the first line counts.
func (l *linter) anyScript(rel string) (string, bool) {
	data, err := l.t.read(rel, maxScriptFile)
	if err != nil {
		if l.t.exists(rel) {
			l.failed(ruleInvalidFiles, rel, err)
		}
		return "", false
	}
	text := string(data)
	if rest, ok := strings.CutPrefix(text, "\ufeff"); ok {
		l.add("script-byte-order-mark", rel, Position{1, 1}, "save it without one", "begins with a byte order mark: the kernel does not find the shebang")
		text = rest
	} else if !strings.HasPrefix(text, "#!") {
		l.add("script-no-shebang", rel, Position{1, 1}, `begin it with "#!/bin/sh" or another interpreter`, "names no interpreter and is executed directly")
	}
	if before, _, ok := strings.Cut(text, "\r\n"); ok {
		line := 1 + strings.Count(before, "\n")
		l.add("script-crlf", rel, Position{line, 1 + len(before) - (strings.LastIndexByte(before, '\n') + 1)}, "save it with Unix line ends", "has Windows line ends: they become part of commands and of the shebang")
	}
	return string(newlines([]byte(text))), true
}

// verifierScript looks for what a grader must not do.
func (l *linter) verifierScript(rel string) {
	text, ok := l.anyScript(rel)
	if !ok {
		return
	}
	if !strings.Contains(text, "reward") && path.Base(rel) != legacyScript {
		l.add("reward-not-written", rel, Position{}, "write a number to /logs/verifier/reward.txt", "never speaks of a reward")
	}
	for _, c := range commands(text) {
		l.pinned(rel, c.Position, c.args())
		if tool := installs(c.args()); tool != "" {
			l.add("verifier-runtime-install", rel, c.Position, "install it in the image; a verifier has no network", "installs software with %s while it grades", tool)
		}
		if host := downloads(c); host != "" {
			l.add("verifier-network-download", rel, c.Position, "put it into tests/ or into the image", "downloads from %s while it grades", host)
		}
	}
}

// installs names the package manager of an installing command.
func installs(args []string) string {
	if len(args) == 0 {
		return ""
	}
	name := path.Base(args[0])
	if slices.Contains(args, "--offline") || slices.Contains(args, "--no-index") {
		return ""
	}
	verbs := map[string][]string{
		"pip": {"install"}, "pip3": {"install"}, "pipx": {"install", "run"}, "npm": {"install", "i", "ci"},
		"yarn": {"add", "install"}, "pnpm": {"add", "install", "i"}, "apt": {"install"}, "apt-get": {"install"},
		"apk": {"add"}, "dnf": {"install"}, "yum": {"install"}, "gem": {"install"}, "cargo": {"install"},
		"go": {"install", "get"}, "conda": {"install"}, "brew": {"install"},
	}
	switch {
	case name == "uvx" || name == "npx":
		return name
	case name == "uv" && len(args) > 2 && (args[1] == "pip" || args[1] == "tool") && args[2] == "install":
		return "uv"
	case strings.HasPrefix(name, "python") && len(args) > 3 && args[1] == "-m" && args[2] == "pip" && args[3] == "install":
		return "pip"
	}
	for _, a := range args[1:] {
		if strings.HasPrefix(a, "-") {
			continue
		}
		if slices.Contains(verbs[name], a) {
			return name
		}
		return ""
	}
	return ""
}

// downloads names the host that a command fetches from.
func downloads(c command) string {
	args := c.args()
	if len(args) == 0 {
		return ""
	}
	switch path.Base(args[0]) {
	case "curl", "wget":
	case "git":
		if len(args) < 2 || args[1] != "clone" {
			return ""
		}
	default:
		return ""
	}
	for _, a := range args[1:] {
		u, err := url.Parse(strings.TrimPrefix(a, "--url="))
		if err != nil || u.Host == "" {
			continue
		}
		h := u.Hostname()
		if strings.Contains(h, ".") && !strings.HasPrefix(h, "127.") && !strings.HasSuffix(h, ".localhost") && h != "0.0.0.0" {
			return h
		}
	}
	return ""
}

// valueFlags of pip and uv take the next word.
const valueFlags = " -r --requirement -c --constraint -i --index-url --extra-index-url -t --target --prefix --root --cache-dir --python -p --log --src --find-links -f --platform --config-settings -C --index --default-index --from "

// pinned reports Python packages without an exact version.
func (l *linter) pinned(rel string, at Position, args []string) {
	for _, p := range pythonPackages(args) {
		if unpinned(p) {
			l.add("unpinned-python-dependency", rel, at, "write "+requirementName(p)+"==<version>", "installs %s in whatever version there is that day", describe(p))
		}
	}
}

var requirement = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*`)

func requirementName(p string) string { return requirement.FindString(p) }

func pythonPackages(args []string) []string {
	var rest []string
	switch {
	case len(args) > 1 && (args[0] == "pip" || args[0] == "pip3") && args[1] == "install":
		rest = args[2:]
	case len(args) > 3 && strings.HasPrefix(args[0], "python") && slices.Equal(args[1:4], []string{"-m", "pip", "install"}):
		rest = args[4:]
	case len(args) > 2 && args[0] == "uv" && (args[1] == "pip" || args[1] == "tool") && args[2] == "install":
		rest = args[3:]
	case len(args) > 1 && args[0] == "uvx":
		rest = args[1:]
	}
	var out []string
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		flag, value, joined := strings.Cut(w, "=")
		next := func() string {
			if !joined && i+1 < len(rest) {
				i++
				return rest[i]
			}
			return value
		}
		switch {
		case flag == "-c" || flag == "--constraint":
			return nil // the constraint file pins
		case flag == "--with" || flag == "-w":
			out = append(out, next())
		case flag == "-e" || flag == "--editable" || strings.Contains(valueFlags, " "+flag+" "):
			next()
		case strings.HasPrefix(w, "-") || strings.ContainsAny(w, "<>") && !requirement.MatchString(w):
		case args[0] == "uvx":
			return out // the tool itself
		default:
			out = append(out, w)
		}
	}
	return out
}

func unpinned(p string) bool {
	switch {
	case p == "" || strings.ContainsAny(p, "$/") || strings.HasPrefix(p, ".") || requirementName(p) == "":
		return false
	case strings.HasSuffix(p, ".whl"), strings.HasSuffix(p, ".tar.gz"), strings.HasSuffix(p, ".zip"):
		return false
	}
	_, version, ok := strings.Cut(p, "==")
	return !ok || strings.Contains(version, "*")
}

// hidden are the parts of a task that no image of the agent may hold.
var hidden = regexp.MustCompile(`(?:^|/)(?:solution(?:/.*)?|solution\.sh|solution\.yaml|solve\.sh|tests|tests/(?:.*/)?(?:test\.sh|run-tests\.sh|test_[^/]+\.py)?|run-tests\.sh)$`)

// dockerfile checks one Dockerfile. agent says that the agent works in it.
func (l *linter) dockerfile(rel string, agent bool) {
	text, err := l.t.readText(rel, maxConfigFile)
	if err != nil {
		if l.t.exists(rel) {
			l.failed(ruleInvalidFiles, rel, err)
		}
		return
	}
	stages := map[string]bool{"scratch": true}
	for _, in := range dockerInstructions(text) {
		switch in.name {
		case "FROM":
			args := withoutFlags(in.words)
			if len(args) > 0 && !stages[strings.ToLower(args[0])] && !strings.ContainsAny(args[0], "$") && !strings.Contains(args[0], "@sha256:") {
				l.add("unpinned-image", rel, in.Position, "add @sha256:<digest>", "%s may be another image tomorrow", describe(args[0]))
			}
			if len(args) == 3 && strings.EqualFold(args[1], "as") {
				stages[strings.ToLower(args[2])] = true
			}
		case "RUN":
			for _, c := range commands(in.rest) {
				l.pinned(rel, in.Position, c.args())
			}
		case "COPY", "ADD":
			args := withoutFlags(in.words)
			if !agent || len(args) < 2 || slices.ContainsFunc(in.words, func(w string) bool { return strings.HasPrefix(w, "--from=") }) {
				continue
			}
			for _, src := range args[:len(args)-1] {
				if hidden.MatchString(strings.TrimSuffix(strings.TrimPrefix(src, "./"), "/")) {
					l.add("agent-image-test-leak", rel, in.Position, "keep tests and solution out of the agent's image", "copies %s, which the agent must not see", describe(src))
				}
			}
		}
	}
}

func withoutFlags(words []string) []string {
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		words = words[1:]
	}
	return words
}

type dockerInstruction struct {
	Position
	name  string // in capitals
	rest  string
	words []string
}

// dockerInstructions reads a Dockerfile roughly: continued lines are joined,
// comments and here-documents left out.
func dockerInstructions(text string) []dockerInstruction {
	var out []dockerInstruction
	var pending string
	start, col := 0, 0
	end := ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if end != "" {
			if trimmed == end {
				end = ""
			}
			continue
		}
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		if pending == "" {
			start, col = i+1, 1+len(line)-len(strings.TrimLeft(line, " \t"))
		}
		if body, ok := strings.CutSuffix(trimmed, `\`); ok {
			pending += body + " "
			continue
		}
		pending += trimmed
		name, rest, _ := strings.Cut(pending, " ")
		in := dockerInstruction{Position: Position{start, col}, name: strings.ToUpper(name), rest: strings.TrimSpace(rest)}
		in.words = strings.Fields(strings.Map(func(r rune) rune {
			if strings.ContainsRune(`[]",`, r) && strings.HasPrefix(in.rest, "[") {
				return ' '
			}
			return r
		}, in.rest))
		out = append(out, in)
		if _, after, ok := strings.Cut(rest, "<<"); ok && (in.name == "RUN" || in.name == "COPY" || in.name == "ADD") {
			end, _, _ = strings.Cut(strings.Trim(strings.TrimLeft(after, "-"), ` "'`), " ")
			end = strings.Trim(end, `"'`)
		}
		pending = ""
	}
	return out
}

// logMount finds the variables of Harbor's older bind mounts.
var logMount = regexp.MustCompile(`\$\{?(?:HOST|ENV)_(?:VERIFIER_LOGS|AGENT_LOGS|ARTIFACTS)_PATH`)

// compose checks a Compose file's services.
func (l *linter) compose(rel string) {
	text, err := l.t.readText(rel, maxConfigFile)
	if err != nil {
		l.failed(ruleInvalidFiles, rel, err)
		return
	}
	doc, err := parseCompose(rel, text)
	if err != nil {
		return // whoever runs the task says what is wrong
	}
	services, _ := doc.root["services"].(map[string]any)
	for _, name := range sortedKeys(services) {
		s, ok := services[name].(map[string]any)
		if !ok {
			continue
		}
		k := key{"services", name}
		if s["privileged"] == true {
			l.add("compose-privileged", rel, doc.place(k.with("privileged")), "remove it", "service %q runs privileged", name)
		}
		if caps, ok := s["cap_add"].([]any); ok && len(caps) > 0 {
			l.add("compose-additional-capabilities", rel, doc.place(k.with("cap_add")), "remove it", "service %q asks for capabilities", name)
		}
		volumes, _ := s["volumes"].([]any)
		for i, v := range volumes {
			l.volume(rel, name, doc.place(k.with("volumes").at(i)), v)
		}
	}
}

func (l *linter) volume(rel, service string, at Position, v any) {
	source, _ := v.(string)
	if m, ok := v.(map[string]any); ok {
		if m["type"] != "bind" {
			return
		}
		source, _ = m["source"].(string)
	} else {
		source, _, _ = strings.Cut(strings.ReplaceAll(source, "${", "\x00"), ":")
		source = strings.ReplaceAll(source, "\x00", "${")
	}
	switch {
	case logMount.MatchString(source):
		l.add("compose-log-mount", rel, at, "remove the mount: logs are copied out", "service %q mounts %s, which is set only with auto_mounting=true", service, source)
	case strings.HasPrefix(source, "/"), strings.HasPrefix(source, "~"), hasDotDot(source):
		l.add("compose-external-bind-mount", rel, at, "copy what it needs into the image", "service %q mounts %s from outside of the task", service, source)
	}
}
