package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/agent"
	"assay/internal/agent/builtin"
	"assay/internal/agent/command"
	"assay/internal/agent/external"
	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/agent/script"
	"assay/internal/exchange"
	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/model"
	"assay/internal/model/catalog"
	"assay/task"
)

// agentKind is one way to name an agent on the command line.
type agentKind struct {
	name, form, means string
	make              func(m *armory, arg string, o armOptions) (agent.Agent, error)
}

// agents is the table of all agents but those of the recipes.
func agents() []agentKind {
	return []agentKind{
		{"oracle", "oracle", "runs the task's own gold solution", func(*armory, string, armOptions) (agent.Agent, error) { return oracle.New(), nil }},
		{"nop", "nop", "does nothing", func(*armory, string, armOptions) (agent.Agent, error) { return nop.New(), nil }},
		{"script", "script:FILE", "runs the shell steps of a file", newScript},
		{"oneshot", "oneshot", "asks a model once, and writes its answer where the task wants it", newOneshot},
		{"react", "react[:STRATEGY,…]", "assay's own agent: a shell, files, a plan (see docs/builtin-agents.md)", newReact},
		{"command", "command:'PROGRAM …'", "runs any program in the sandbox, with the brief as file and variable", newCommand},
	}
}

func newScript(_ *armory, file string, _ armOptions) (agent.Agent, error) {
	if file == "" {
		return nil, fmt.Errorf("script needs a file: -a script:FILE")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return script.New(file, b)
}

func newCommand(_ *armory, line string, _ armOptions) (agent.Agent, error) {
	if strings.TrimSpace(line) == "" {
		return nil, fmt.Errorf("command needs a program: -a command:'my-agent --flag'")
	}
	return command.New(line), nil
}

func newOneshot(*armory, string, armOptions) (agent.Agent, error) {
	return builtin.NewOneshot(ask), nil
}

func newReact(_ *armory, strategy string, _ armOptions) (agent.Agent, error) {
	s, err := builtin.ParseStrategy(strategy, os.ReadFile)
	if err != nil {
		return nil, err
	}
	return builtin.NewReact(s, ask)
}

// ask connects a built-in agent with its trial's model.
func ask(e agent.Endpoint) (builtin.Completer, error) {
	codec := codecs()[model.Dialect(e.Dialect)]
	if codec == nil {
		return nil, fmt.Errorf("no codec for dialect %q", e.Dialect)
	}
	return &model.Client{Codec: codec, Base: e.URL, Key: e.Key, Transport: e.Transport}, nil
}

// absolute makes the strategy files of a react's spec absolute.
func absolute(strategy string) (string, error) {
	parts := strings.Split(strategy, ",")
	for i, p := range parts {
		if p = strings.TrimSpace(p); !strings.HasSuffix(p, ".toml") || strings.Contains(p, "=") {
			continue
		}
		abs, err := filepath.Abs(p)
		if err != nil {
			return "", err
		}
		parts[i] = abs
	}
	return strings.Join(parts, ","), nil
}

// armSpec is one arm as the user asked for it.
type armSpec struct {
	agent, model string
	name         string   // of the arm; empty: the agent's
	tasks        []string // that it is for; nil: all
	instructions string
	env          map[string]string
	options      armOptions
}

// armory makes arms. It is used for one command.
type armory struct {
	a        *app
	g        *grammar
	catalog  *catalog.Catalog
	switches *switchboard
	images   *image.Store // nil until it is needed
}

// armory opens what arms are made with.
func (a *app) armory(g *grammar, f modelFlags) (*armory, error) {
	c, err := a.openCatalog(f)
	if err != nil {
		return nil, err
	}
	s, err := a.switchboard()
	if err != nil {
		return nil, err
	}
	return &armory{a: a, g: g, catalog: c, switches: s}, nil
}

// Close ends what the arms are connected with.
func (m *armory) Close() error {
	err := m.switches.Close()
	if m.images != nil {
		err = errors.Join(err, m.images.Close())
	}
	return err
}

// arm makes the arm of a spec. A file's arm is called by the file's name and
// found again, by a resumed job, by its absolute path.
func (m *armory) arm(s armSpec) (job.Arm, error) {
	if strings.HasPrefix(s.agent, exchange.PredictionArm) {
		return predictedAgain(s.agent)
	}
	arm := job.Arm{Spec: s.agent, Tasks: s.tasks, Instructions: s.instructions, Env: s.env}
	name, arg, _ := strings.Cut(s.agent, ":")
	if (name == "script" || isRecipeFile(s.agent)) && s.agent != name+":" {
		file := strings.TrimPrefix(s.agent, "script:")
		abs, err := filepath.Abs(file)
		if err != nil {
			return job.Arm{}, err
		}
		prefix := strings.TrimSuffix(s.agent, file)
		arg = abs
		arm.Spec, arm.From = prefix+filepath.Base(abs), prefix+abs
	}
	if name == "react" && strings.Contains(arg, ".toml") {
		var err error
		if arg, err = absolute(arg); err != nil {
			return job.Arm{}, err
		}
		arm.From = name + ":" + arg
	}
	if s.name != "" {
		if arm.From == "" {
			arm.From = arm.Spec
		}
		arm.Spec, s.options.Name = s.name, s.name
	}
	var err error
	if arm.Agent, err = m.agent(s.agent, arg, s.options); err != nil {
		return job.Arm{}, fmt.Errorf("agent %q: %w", s.agent, err)
	}
	if err := m.connect(&arm, s); err != nil {
		return job.Arm{}, err
	}
	if !s.options.empty() {
		if arm.Options, err = json.Marshal(s.options); err != nil {
			return job.Arm{}, err
		}
	}
	return arm, nil
}

func isRecipeFile(spec string) bool {
	return strings.HasSuffix(spec, ".toml") && !strings.Contains(spec, ":")
}

// agent finds an agent in the tables.
func (m *armory) agent(spec, arg string, o armOptions) (agent.Agent, error) {
	name, _, _ := strings.Cut(spec, ":")
	for _, k := range agents() {
		if k.name == name {
			return k.make(m, arg, o)
		}
	}
	if a, err := m.external(spec, o); a != nil || err != nil {
		return a, err
	}
	var forms []string
	for _, k := range agents() {
		forms = append(forms, fmt.Sprintf("  %-24s %s", k.form, k.means))
	}
	table, err := external.Table()
	if err != nil {
		return nil, err
	}
	for _, r := range table {
		forms = append(forms, fmt.Sprintf("  %-24s %s", r.Name, r.Summary))
	}
	forms = append(forms, fmt.Sprintf("  %-24s %s", "FILE.toml", "a recipe of your own ('assay agent show NAME' prints one to begin with)"))
	return nil, fmt.Errorf("there is no such agent; there are\n%s", strings.Join(forms, "\n"))
}

// external makes an agent of a recipe: NAME, NAME/VARIANT, either with
// @VERSION, or a file; nil: spec names none.
func (m *armory) external(spec string, o armOptions) (agent.Agent, error) {
	table, err := external.Table()
	if err != nil {
		return nil, err
	}
	name, version, _ := strings.Cut(spec, "@")
	name, variant, _ := strings.Cut(name, "/")
	if isRecipeFile(spec) {
		name, variant = spec, ""
	} else if !slices.ContainsFunc(table, func(r external.Recipe) bool { return r.Name == name }) {
		return nil, nil
	} else if version != "" {
		name += "@" + version
	}
	r, err := recipe(name)
	if err != nil {
		return nil, err
	}
	opts := external.Options{Variant: variant, Effort: o.Effort, NoRetries: o.NoRetries}
	if r.Installs() {
		s, err := m.store()
		if err != nil {
			return nil, err
		}
		i, err := external.Find(s, r)
		if err != nil {
			return nil, err
		}
		opts.Layer = i.Record.Layer
	}
	return external.New(r, opts)
}

// store is where agents are installed; it is open until the armory closes, for
// layers that were found are held by it.
func (m *armory) store() (*image.Store, error) {
	if m.images != nil {
		return m.images, nil
	}
	var err error
	m.images, err = m.a.openStore(m.g)
	return m.images, err
}

// needs is what an agent wants of a trial, as far as that does not hang on the
// brief.
func needs(arm job.Arm) (agent.Needs, error) { return arm.Agent.Needs(task.Brief{}) }

// grid makes an arm of each agent with each model. Agents that ask no model
// stand in it once.
func (m *armory) grid(agents, models []string, o armOptions) ([]job.Arm, error) {
	if len(agents) == 0 {
		agents = []string{"oracle"}
	}
	var arms []job.Arm
	unused := len(models) > 0
	for _, a := range agents {
		bare, err := m.arm(armSpec{agent: a, options: o})
		if err != nil {
			return nil, err
		}
		n, err := needs(bare)
		if err != nil {
			return nil, fmt.Errorf("agent %q: %w", a, err)
		}
		if n.Dialect == "" || len(models) == 0 {
			if n.Dialect != "" && !n.Optional {
				return nil, fmt.Errorf("agent %q needs a model: name one with -m", a)
			}
			arms = append(arms, bare)
			continue
		}
		unused = false
		for _, name := range models {
			if err := m.script(name); err != nil {
				return nil, err
			}
			arm, err := m.arm(armSpec{agent: a, model: name, options: o})
			if err != nil {
				return nil, err
			}
			arms = append(arms, arm)
		}
	}
	if unused {
		return nil, fmt.Errorf("-m %s: none of these agents asks a model", strings.Join(models, " -m "))
	}
	return arms, nil
}

// again makes an arm from a job's configuration.
func (m *armory) again(c job.ArmConfig) (job.Arm, error) {
	s := armSpec{agent: c.Spec, model: c.Model, tasks: c.Tasks, instructions: c.Instructions, env: c.Env}
	if c.Options != nil {
		if err := json.Unmarshal(c.Options, &s.options); err != nil {
			return job.Arm{}, fmt.Errorf("agent %s: options of config.json: %w", c.Spec, err)
		}
		s.name = s.options.Name
	}
	return m.arm(s)
}
