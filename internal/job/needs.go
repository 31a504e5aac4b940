package job

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/sandbox"
	"assay/task"
)

// Need is something that a task declares by a written key and that the job's
// modes do not give. Keys that are left out declare nothing: such a task runs
// sealed and offline.
type Need struct {
	Task   string `json:"task"`
	Step   string `json:"step,omitempty"`
	Who    string `json:"who"`  // "agent" or "verifier"
	Asks   string `json:"asks"` // the key, as it is written
	Has    string `json:"has"`  // what it would get
	Remedy string `json:"remedy"`
}

func (n Need) String() string {
	at := n.Task
	if n.Step != "" {
		at += ", step " + n.Step
	}
	return fmt.Sprintf("%s: the %s needs %s and would get %s: %s", at, n.Who, n.Asks, n.Has, n.Remedy)
}

// Unmet lists what the job's tasks declare and would not get. A trial of such a
// task says nothing about the agent.
func (c Config) Unmet() []Need {
	var all []Need
	for _, t := range c.Tasks {
		for i := range t.Steps {
			all = append(all, c.unmet(t, i)...)
		}
	}
	return all
}

func (c Config) unmet(t *task.Task, i int) (all []Need) {
	b, key := t.Brief(i), t.Key(i)
	add := func(n Need) {
		n.Task, n.Step = t.Name, t.Steps[i].Name
		all = append(all, n)
	}
	offline := func(asks task.Network) (string, bool) {
		n, _, _ := c.reach(asks)
		return "network_mode = " + fmt.Sprintf("%q", asks.Mode), n == sandbox.NetNone && slices.Contains([]task.NetworkMode{task.NetworkPublic, task.NetworkAllowlist}, asks.Mode) &&
			(asks.Mode == task.NetworkPublic || len(asks.Allow) > 0)
	}
	if asks, bad := offline(b.Network); bad {
		add(Need{Who: "agent", Asks: asks, Has: "no network", Remedy: "--network full, or an allow-list with --allow-host"})
	}
	if saysVerifierNetwork(t, key) {
		if asks, bad := offline(key.Network); bad && !c.sealed(t) {
			add(Need{Who: "verifier", Asks: asks, Has: "no network", Remedy: "--network full, or 'assay task seal', which installs once and grades offline"})
		}
	}
	if got := c.verifierMode(key); key.Mode == task.VerifierLive && got != task.VerifierLive {
		add(Need{Who: "verifier", Asks: "the agent's processes alive (environment_mode = \"shared\")", Has: "a " + string(got) + " copy", Remedy: "leave --verifier out"})
	}
	return all
}

// NeedsError lists needs for people; nil for none.
func NeedsError(needs []Need) error {
	const most = 5
	if len(needs) == 0 {
		return nil
	}
	var lines []string
	for _, n := range needs[:min(most, len(needs))] {
		lines = append(lines, n.String())
	}
	if len(needs) > most {
		lines = append(lines, fmt.Sprintf("and %d more", len(needs)-most))
	}
	return fmt.Errorf("tasks that declare what this job does not give them; they are not scored 0 for that:\n  %s", strings.Join(lines, "\n  "))
}
