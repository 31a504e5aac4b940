package task

import (
	"fmt"
	"regexp"
	"strings"
)

// hostVariable is a value that is one reference as a whole. Everything up to
// the first colon is the name, as in Harbor.
var hostVariable = regexp.MustCompile(`^\$\{([^}:]+)(?::-(.*))?\}$`)

// ResolveEnv turns a table of variables into sorted "KEY=value" strings.
// "${VAR}" and "${VAR:-default}" are replaced when they are the whole value;
// inside a longer value they stay as they are. A variable that lookup does not
// know and that has no default is an error, and so is a key that cannot stand
// in an environment.
func ResolveEnv(env map[string]string, lookup func(string) (string, bool)) ([]string, error) {
	out := make([]string, 0, len(env))
	for _, k := range sortedKeys(env) {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return nil, fmt.Errorf("environment variable %q: not a usable name", k)
		}
		v := env[k]
		if name, fallback, ok := reference(v); ok {
			value, known := lookup(name)
			switch {
			case known:
				v = value
			case fallback != nil:
				v = *fallback
			default:
				return nil, fmt.Errorf("environment variable %s: needs %s, which is not set on this machine", k, name)
			}
		}
		if strings.ContainsRune(v, 0) {
			return nil, fmt.Errorf("environment variable %s: its value holds a zero byte", k)
		}
		out = append(out, k+"="+v)
	}
	return out, nil
}

// HostVariable is a variable of this machine that a task reads.
type HostVariable struct {
	Name     string
	Required bool // it has no default
}

// HostVariables lists what ResolveEnv would look up, in the order of the keys.
func HostVariables(env map[string]string) []HostVariable {
	var out []HostVariable
	for _, k := range sortedKeys(env) {
		if name, fallback, ok := reference(env[k]); ok {
			out = append(out, HostVariable{Name: name, Required: fallback == nil})
		}
	}
	return out
}

func reference(v string) (name string, fallback *string, ok bool) {
	m := hostVariable.FindStringSubmatchIndex(v)
	if m == nil {
		return "", nil, false
	}
	if m[4] >= 0 {
		s := v[m[4]:m[5]]
		fallback = &s
	}
	return v[m[2]:m[3]], fallback, true
}

// envRemarks notes references that will not be replaced, and reads of the host.
func (d *decoder) envRemarks(t *table, env map[string]string) {
	for _, k := range sortedKeys(env) {
		at := t.key.with("env").with(k)
		switch name, fallback, ok := reference(env[k]); {
		case ok && fallback == nil:
			d.remark("env-host-variable", at, "give it a default with ${VAR:-default} where one makes sense",
				"the task needs %s from the machine it runs on", name)
		case !ok && strings.Contains(env[k], "${"):
			d.remark("env-not-replaced", at, "make the reference the whole value, or compose it in a script",
				"${…} is replaced only where it is the whole value; here it stays as it is")
		}
	}
}
