package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/agent"
	"assay/internal/agent/command"
	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/agent/script"
	"assay/internal/job"
)

// agentKind is one way to name an agent on the command line.
type agentKind struct {
	name, form, means string
	make              func(arg string) (agent.Agent, error)
}

// agents is the table of all built-in agents.
func agents() []agentKind {
	return []agentKind{
		{"oracle", "oracle", "runs the task's own gold solution", func(string) (agent.Agent, error) { return oracle.New(), nil }},
		{"nop", "nop", "does nothing", func(string) (agent.Agent, error) { return nop.New(), nil }},
		{"script", "script:FILE", "runs the shell steps of a file", newScript},
		{"command", "command:'PROGRAM …'", "runs any program in the sandbox, with the brief as file and variable", newCommand},
	}
}

func newScript(file string) (agent.Agent, error) {
	if file == "" {
		return nil, fmt.Errorf("script needs a file: -a script:FILE")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return script.New(file, b)
}

func newCommand(line string) (agent.Agent, error) {
	if strings.TrimSpace(line) == "" {
		return nil, fmt.Errorf("command needs a program: -a command:'my-agent --flag'")
	}
	return command.New(line), nil
}

// parseAgent makes the agent that spec names. A file's arm is called by the
// file's name and found again, by a resumed job, by its absolute path.
func parseAgent(spec string) (job.Arm, error) {
	name, arg, _ := strings.Cut(spec, ":")
	for _, k := range agents() {
		if k.name != name {
			continue
		}
		arm := job.Arm{Spec: spec}
		if name == "script" && arg != "" {
			abs, err := filepath.Abs(arg)
			if err != nil {
				return job.Arm{}, err
			}
			arg = abs
			arm.Spec, arm.From = name+":"+filepath.Base(abs), name+":"+abs
		}
		a, err := k.make(arg)
		if err != nil {
			return job.Arm{}, fmt.Errorf("agent %q: %w", spec, err)
		}
		arm.Agent = a
		return arm, nil
	}
	var forms []string
	for _, k := range agents() {
		forms = append(forms, fmt.Sprintf("  %-24s %s", k.form, k.means))
	}
	return job.Arm{}, fmt.Errorf("no agent is named %q; there are\n%s", name, strings.Join(forms, "\n"))
}

func parseAgents(specs []string) ([]job.Arm, error) {
	if len(specs) == 0 {
		specs = []string{"oracle"}
	}
	var arms []job.Arm
	for _, s := range specs {
		arm, err := parseAgent(s)
		if err != nil {
			return nil, err
		}
		arms = append(arms, arm)
	}
	return arms, nil
}

// parseArm makes an arm again from a job's configuration.
func parseArm(c job.ArmConfig) (job.Arm, error) {
	arm, err := parseAgent(c.Spec)
	arm.Instructions, arm.Env, arm.Options = c.Instructions, c.Env, c.Options
	return arm, err
}
