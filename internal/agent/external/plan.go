package external

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"assay/internal/agent"
	"assay/internal/image"
)

// Places in the sandbox that a run makes for its agent and takes away again.
const (
	ownRoot image.Path = "/.assay-agent"
	ownHome            = ownRoot + "/home"
	ownLogs            = ownRoot + "/logs"
	ownList            = ownRoot + "/had"
)

const (
	// maxBriefArgument keeps the instruction below what the kernel takes as one
	// argument (128 KiB).
	maxBriefArgument = 100 << 10
	// What agents are told where nobody knows what the model holds.
	defaultWindow = 128_000
	maxAnswer     = 32_000
)

// plan is a recipe made ready for one run.
type plan struct {
	files   []agent.File
	prepare [][]string
	command []string
	env     []string
	shown   string // the command as a trajectory shows it: without key and brief
}

// plan fills the recipe's templates in.
func (a *Agent) plan(s agent.Session) (plan, error) {
	vars := a.vars(s)
	switches := a.switches(s)
	own := maps.Clone(a.recipe.Vars)
	if own == nil {
		own = map[string]string{}
	}
	for _, sw := range switches {
		maps.Copy(own, sw.Vars)
	}
	x := expander{vars: vars}
	expanded := map[string]string{}
	for k, v := range own {
		expanded[k] = x.text(v)
	}
	maps.Copy(vars, expanded)

	var p plan
	env := map[string]string{}
	maps.Copy(env, a.recipe.Run.Env)
	var args []string
	for _, sw := range switches {
		args = append(args, sw.Args...)
		maps.Copy(env, sw.Env)
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		p.env = append(p.env, k+"="+x.text(env[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(a.options.Env)) {
		p.env = append(p.env, k+"="+a.options.Env[k])
	}
	for _, f := range a.recipe.Files {
		p.files = append(p.files, x.file(f))
	}
	for _, c := range a.recipe.Run.Prepare {
		p.prepare = append(p.prepare, x.list(a.words(c, nil)))
	}
	words := a.words(a.recipe.Run.Command, args)
	p.command, p.shown = x.list(words), strings.Join(words, " ")
	return p, x.err
}

// switches are those that are on, in the order in which they count.
func (a *Agent) switches(s agent.Session) []Switch {
	var all []Switch
	if a.options.NoRetries {
		all = append(all, a.recipe.NoRetries)
	}
	if a.options.Effort != "" {
		all = append(all, a.recipe.Effort[a.options.Effort])
	}
	if s.MCP != "" {
		all = append(all, a.recipe.MCP)
	}
	return all
}

// words puts the switches' arguments in place, and finds the program in the
// layer's bin.
func (a *Agent) words(command, args []string) []string {
	var all []string
	for _, w := range command {
		if w == argsWord {
			all = append(all, args...)
			continue
		}
		all = append(all, w)
	}
	if a.options.Layer != "" && len(all) > 0 && !strings.Contains(all[0], "/") {
		all[0] = path.Join(string(a.recipe.Place()), "bin", all[0])
	}
	return all
}

// vars are the values of [Variables] for one run.
func (a *Agent) vars(s agent.Session) map[string]string {
	place := string(a.recipe.Place())
	v := map[string]string{
		"brief": briefArgument(s.Brief.Instruction), "brief_file": string(agent.BriefFile), "task": s.Brief.Task,
		"home": string(ownHome), "logs": string(ownLogs), "workdir": string(s.Workdir),
		"agent": place, "warm": path.Join(place, "warm"), "mcp_url": s.MCP,
		"base": "", "key": "", "model": "", "context": "", "max_output": "",
	}
	if m := s.Model; m != nil {
		window := m.Window
		if window <= 0 {
			window = defaultWindow
		}
		v["base"], v["key"], v["model"] = strings.TrimSuffix(m.URL, "/"), m.Key, m.Model
		v["context"] = strconv.FormatInt(window, 10)
		v["max_output"] = strconv.FormatInt(min(maxAnswer, max(window/4, 1)), 10)
	}
	return v
}

// briefArgument is the instruction as one argument of a program. One that is
// too long for that is named by its file, and one that begins with a dash gets
// a line break before it, so that no parser of options takes it for one.
func briefArgument(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	if len(text) > maxBriefArgument {
		return fmt.Sprintf("Your task is described in the file %s. Read all of it first, then do what it says.", agent.BriefFile)
	}
	if strings.HasPrefix(text, "-") {
		return "\n" + text
	}
	return text
}

// expander fills templates in and remembers the first that it cannot.
type expander struct {
	vars map[string]string
	err  error
}

func (x *expander) text(template string) string {
	out, err := Expand(template, x.vars)
	if err != nil && x.err == nil {
		x.err = err
	}
	return out
}

func (x *expander) list(templates []string) []string {
	out := make([]string, len(templates))
	for i, t := range templates {
		out[i] = x.text(t)
	}
	return out
}

// file is one of the agent's own, which everybody in the sandbox may read and
// write: the agent's user is known by its name alone, and who else is in there
// has the agent's key anyway.
func (x *expander) file(f ConfigFile) agent.File {
	at := path.Clean(x.text(f.Path))
	if !strings.HasPrefix(at, string(ownHome)+"/") && x.err == nil {
		x.err = fmt.Errorf("file %q: it must lie below {{home}}: what an agent finds elsewhere is the task's", f.Path)
	}
	mode := uint32(0o666)
	if f.Mode != "" {
		m, err := strconv.ParseUint(f.Mode, 8, 9)
		if err != nil && x.err == nil {
			x.err = fmt.Errorf("file %q: mode %q is not octal", f.Path, f.Mode)
		}
		mode = uint32(m)
	}
	return agent.File{Path: image.Path(at), Mode: mode, Data: []byte(x.text(f.Content))}
}
