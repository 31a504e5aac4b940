package task

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// composeVars are the variables that a Compose file may name.
type composeVars struct {
	values map[string]string
	unset  map[string]bool // named, and nowhere set
}

// LogsSource is where a Compose file's variables for the host's log directories
// lead: those directories are plain ones in the agent's container.
const logsSource = "/.assay-logs/"

const (
	maxExpansion = 64 << 10 // bytes of one value
	maxVarDepth  = 20       // of defaults in defaults
)

// composeVars gathers them: the .env file, then the task's own variables, then
// those that Harbor and Terminal-Bench set. None is this machine's.
func (t *Task) composeVars(tr *tree, dir string, env []string) (*composeVars, error) {
	v := &composeVars{values: map[string]string{}, unset: map[string]bool{}}
	if name := joinRel(dir, ".env"); tr.isFile(name) {
		text, err := tr.readText(name, maxConfigFile)
		if err != nil {
			return nil, err
		}
		for _, kv := range envFile(text) {
			k, val, _ := strings.Cut(kv, "=")
			v.values[k] = val
		}
	}
	for _, kv := range env {
		k, val, _ := strings.Cut(kv, "=")
		v.values[k] = val
	}
	e := t.Config.Environment
	set := map[string]string{
		"CONTEXT_DIR": ".", "MAIN_IMAGE_NAME": MainImage, "TEST_DIR": "/tests",
		"T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME": MainImage, "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME": mainService,
		"T_BENCH_TASK_DOCKER_NAME_PREFIX": "task", "T_BENCH_TEST_DIR": "/tests",
		"T_BENCH_CONTAINER_LOGS_PATH": "/logs", "T_BENCH_TASK_LOGS_PATH": logsSource + "all",
		"T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/logs/agent", "T_BENCH_TASK_AGENT_LOGS_PATH": logsSource + "agent",
	}
	for _, name := range []string{"verifier", "agent", "artifacts"} {
		upper := strings.ToUpper(name)
		if name != "artifacts" {
			upper += "_LOGS"
		}
		set["HOST_"+upper+"_PATH"], set["ENV_"+upper+"_PATH"] = logsSource+name, "/logs/"+name
	}
	if e.DockerImage != "" {
		set["PREBUILT_IMAGE_NAME"] = e.DockerImage
	}
	if e.CPUs != nil {
		set["CPUS"] = strconv.FormatFloat(*e.CPUs, 'g', -1, 64)
	}
	if e.MemoryMB != nil {
		set["MEMORY"] = strconv.FormatInt(*e.MemoryMB, 10) + "M"
	}
	for k, val := range set {
		v.values[k] = val
	}
	return v, nil
}

// expand replaces $NAME, ${NAME} with its default, replacement and error forms,
// and $$.
func (v *composeVars) expand(s string) (string, error) {
	if !strings.Contains(s, "$") {
		return s, nil
	}
	out, rest, err := v.until(s, false, 0)
	if err != nil {
		return "", err
	}
	if rest != "" {
		return "", errors.New("a variable is not closed")
	}
	return out, nil
}

// until expands up to the end of s or, inside braces, to the closing one.
func (v *composeVars) until(s string, inside bool, depth int) (out, rest string, err error) {
	if depth > maxVarDepth {
		return "", "", errors.New("variables are nested too deep")
	}
	var b strings.Builder
	for s != "" {
		if b.Len() > maxExpansion {
			return "", "", fmt.Errorf("its value is larger than %d bytes", maxExpansion)
		}
		c := s[0]
		if inside && c == '}' {
			return b.String(), s, nil
		}
		s = s[1:]
		switch {
		case c != '$' || s == "":
			b.WriteByte(c)
			continue
		case s[0] == '$':
			b.WriteByte('$')
			s = s[1:]
			continue
		case s[0] == '{':
			var val string
			if val, s, err = v.braces(s[1:], depth); err != nil {
				return "", "", err
			}
			b.WriteString(val)
			continue
		}
		n := nameLen(s)
		if n == 0 {
			return "", "", fmt.Errorf("a dollar sign before %q is no variable; write $$ for the sign itself", s[:1])
		}
		b.WriteString(v.get(s[:n]))
		s = s[n:]
	}
	if inside {
		return "", "", errors.New("a variable is not closed")
	}
	return b.String(), "", nil
}

func (v *composeVars) get(name string) string {
	val, ok := v.values[name]
	if !ok {
		v.unset[name] = true
	}
	return val
}

// braces expands what follows "${", up to its closing brace.
func (v *composeVars) braces(s string, depth int) (val, rest string, err error) {
	n := nameLen(s)
	name := s[:n]
	if n == 0 || n == len(s) {
		return "", "", errors.New("a variable is not closed, or has no name")
	}
	s = s[n:]
	set, known := v.values[name]
	if s[0] == '}' {
		return v.get(name), s[1:], nil
	}
	full := known
	if s[0] == ':' && len(s) > 1 {
		full, s = known && set != "", s[1:]
	}
	op := s[0]
	word, rest, err := v.until(s[1:], true, depth+1)
	if err != nil {
		return "", "", err
	}
	rest = rest[1:]
	switch op {
	case '-':
		if full {
			return set, rest, nil
		}
		return word, rest, nil
	case '+':
		if full {
			return word, rest, nil
		}
		return "", rest, nil
	case '?':
		if full {
			return set, rest, nil
		}
		return "", "", fmt.Errorf("variable %s is not set: %s", name, clip(word, 200))
	}
	return "", "", fmt.Errorf("variable %s: %q is no operator", name, string(op))
}

func nameLen(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n
}

// envFile reads "KEY=value" lines. Quotes around a whole value go; nothing in
// it is replaced.
func envFile(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		k, v, ok := strings.Cut(line, "=")
		k = strings.TrimSpace(k)
		if !ok || k == "" || strings.HasPrefix(line, "#") || nameLen(k) != len(k) {
			continue
		}
		v = strings.TrimSpace(v)
		if n := len(v); n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
			v = v[1 : n-1]
		} else if at := strings.Index(v, " #"); at >= 0 {
			v = strings.TrimSpace(v[:at])
		}
		all = append(all, k+"="+v)
	}
	return all
}
