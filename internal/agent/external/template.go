package external

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Variables of templates: {{name}} is the value, {{name|json}} a quoted JSON
// string (TOML reads it too), {{name|sh}} one word for a shell.
//
//	base          the gateway's URL, without /v1 and without a trailing slash
//	key           the trial's key for it
//	model         the model's name
//	context       tokens that the model's window holds
//	max_output    tokens of the longest answer
//	brief         the instruction
//	brief_file    a file that holds it
//	home          a directory for the agent's own files, new for each run
//	workdir       where the work is
//	agent         the root of the agent's layer
//	warm          what Install.Warm left
//	logs          a directory whose files are kept
//	mcp_url       where the tool server listens, may be empty
//	task          the task's name
//
// and the recipe's own [vars].
func Variables() []string {
	return []string{"base", "key", "model", "context", "max_output", "brief", "brief_file", "home", "workdir", "agent",
		"warm", "logs", "mcp_url", "task"}
}

// argsWord stands in a command for the arguments of switches.
const argsWord = "{{args}}"

var variableRE = regexp.MustCompile(`\{\{\s*([a-z_][a-z0-9_]*)\s*(?:\|\s*([a-z]+)\s*)?\}\}`)

// Expand replaces the variables of a template. A value is not expanded again.
func Expand(template string, vars map[string]string) (string, error) {
	var bad error
	out := variableRE.ReplaceAllStringFunc(template, func(m string) string {
		part := variableRE.FindStringSubmatch(m)
		v, ok := vars[part[1]]
		if !ok && bad == nil {
			bad = fmt.Errorf("no variable is named %q", part[1])
		}
		switch part[2] {
		case "":
			return v
		case "json":
			b, err := json.Marshal(v)
			if err != nil && bad == nil {
				bad = err
			}
			return string(b)
		case "sh":
			return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'"
		}
		if bad == nil {
			bad = fmt.Errorf("no form is named %q; there are json and sh", part[2])
		}
		return ""
	})
	return out, bad
}

// checkTemplates expands every template once, to find names that are not there.
func (r Recipe) checkTemplates() (string, error) {
	vars := map[string]string{}
	for _, v := range Variables() {
		vars[v] = ""
	}
	own := []map[string]string{r.Vars, r.NoRetries.Vars, r.MCP.Vars}
	for _, s := range r.Effort {
		own = append(own, s.Vars)
	}
	for _, v := range r.Variants {
		own = append(own, v.Vars)
	}
	for _, m := range own {
		for k := range m {
			if slices.Contains(Variables(), k) {
				return "vars." + k, fmt.Errorf("%q is a variable of every recipe", k)
			}
		}
	}
	t := templates{vars: vars}
	for _, m := range own { // they may use the built-in ones, not each other
		t.table("vars", m)
	}
	for _, m := range own {
		for k := range m {
			vars[k] = ""
		}
	}
	t.list("install.warm", r.Install.Warm)
	t.run("run", r.Run.Prepare, r.Run.Command, r.Run.Env)
	t.files("file", r.Files)
	t.toggle("no_retries", r.NoRetries)
	t.toggle("mcp", r.MCP)
	for _, k := range slices.Sorted(maps.Keys(r.Effort)) {
		t.toggle("effort."+k, r.Effort[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Variants)) {
		v := r.Variants[k]
		t.run("variant."+k, v.Prepare, v.Command, v.Env)
		t.files("variant."+k+".file", v.Files)
	}
	return t.key, t.err
}

// templates notes the first template that does not expand.
type templates struct {
	vars map[string]string
	key  string
	err  error
}

func (t *templates) text(key, s string) {
	if _, err := Expand(strings.ReplaceAll(s, argsWord, ""), t.vars); err != nil && t.err == nil {
		t.key, t.err = key, err
	}
}

func (t *templates) list(key string, list []string) {
	for _, s := range list {
		t.text(key, s)
	}
}

func (t *templates) table(key string, m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !envRE.MatchString(k) && t.err == nil {
			t.key, t.err = key+"."+k, fmt.Errorf("%q is no name of a variable", k)
		}
		t.text(key+"."+k, m[k])
	}
}

func (t *templates) toggle(key string, s Switch) {
	t.list(key+".args", s.Args)
	t.table(key+".env", s.Env)
}

func (t *templates) run(key string, prepare [][]string, command []string, env map[string]string) {
	for _, p := range prepare {
		t.list(key+".prepare", p)
	}
	t.list(key+".command", command)
	t.table(key+".env", env)
}

func (t *templates) files(key string, files []ConfigFile) {
	for _, f := range files {
		t.text(key+".path", f.Path)
		t.text(key+".content", f.Content)
	}
}
