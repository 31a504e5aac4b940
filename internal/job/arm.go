package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"assay/internal/agent"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// Arm is one column of the grid: an agent as the user named it, and the model
// that it talks to.
type Arm struct {
	Spec  string // "oracle", "script:solve.sh"; with the model's name the arm's identity in the job
	From  string // what names it in full, for Load: "script:/home/me/solve.sh"; empty: Spec
	Agent agent.Agent
	Model *Model // nil: none

	// Tasks names those that the arm is for; nil: all of the job's.
	Tasks []string

	Instructions string            // added to every brief, after an empty line
	Env          map[string]string // of the agent, over what it asks for itself
	// Given are answers that were made elsewhere, one trial each, instead of
	// attempts of Agent; nil: there are none.
	Given func(t *task.Task) []Given
	// Options is what else the arm was made of, for Load; nil: nothing.
	Options json.RawMessage
}

// Model is what an arm's agent talks to.
type Model struct {
	Name     string // as tables show it
	From     string // what names it in full, for Load; empty: Name
	Provider string // empty: unknown
	Dialects []string
	// Open makes the way of one trial to the model.
	Open LineMaker
}

// model is the arm's model by name; empty: none.
func (arm Arm) model() string {
	if arm.Model == nil {
		return ""
	}
	return arm.Model.Name
}

// meant reports whether the arm is for a task.
func (arm Arm) meant(t *task.Task) bool {
	return arm.Tasks == nil || slices.Contains(arm.Tasks, t.Name)
}

// label names the arm to people.
func (arm Arm) label() string {
	if arm.Model == nil {
		return arm.Spec
	}
	return arm.Spec + " with " + arm.Model.Name
}

// info names agent and model. An agent that has a model of its own keeps it.
func (arm Arm) info() trial.AgentInfo {
	i := arm.Agent.Info()
	if arm.Model != nil {
		i.Model = &trial.ModelInfo{Name: arm.Model.Name}
		if p := arm.Model.Provider; p != "" {
			i.Model.Provider = &p
		}
	}
	return i
}

// brief is what the agent is told: the task's own words, then the arm's.
func (arm Arm) brief(b task.Brief) task.Brief {
	if arm.Instructions != "" {
		b.Instruction += "\n\n" + arm.Instructions
	}
	return b
}

// ArmConfig is how a job's configuration names an arm.
type ArmConfig struct {
	Spec         string            // "script:/home/me/solve.sh"
	Model        string            // empty: none
	Tasks        []string          // nil: all
	Instructions string            // empty: none
	Env          map[string]string // of the agent
	Options      json.RawMessage   // nil: none
}

// Keys of an arm's kwargs.
const (
	armSpec         = "spec"
	armModel        = "model"
	armInstructions = "instructions"
	armOptions      = "options"
	armTasks        = "tasks"
)

// armConfig keeps the arm's whole spec beside the name that Harbor shows.
func armConfig(arm Arm) store.AgentConfig {
	a := store.AgentConfig{Name: arm.Agent.Info().Name, Env: maps.Clone(arm.Env)}
	keep := func(key string, v any) {
		if a.Kwargs == nil {
			a.Kwargs = map[string]any{}
		}
		a.Kwargs[key] = v
	}
	from := arm.From
	if from == "" {
		from = arm.Spec
	}
	if from != a.Name {
		keep(armSpec, from)
	}
	if m := arm.info().Model; m != nil {
		a.ModelName = m.Name
	}
	if m := arm.Model; m != nil && m.From != "" && m.From != m.Name {
		keep(armModel, m.From)
	}
	if arm.Instructions != "" {
		keep(armInstructions, arm.Instructions)
	}
	if arm.Tasks != nil {
		keep(armTasks, arm.Tasks)
	}
	if arm.Options != nil {
		keep(armOptions, arm.Options)
	}
	return a
}

// readArm is the other way around.
func readArm(a store.AgentConfig) (ArmConfig, error) {
	c := ArmConfig{Spec: a.Name, Model: a.ModelName, Env: a.Env}
	for _, key := range slices.Sorted(maps.Keys(a.Kwargs)) {
		into := map[string]*string{armSpec: &c.Spec, armModel: &c.Model, armInstructions: &c.Instructions}[key]
		if into == nil {
			continue
		}
		s, ok := a.Kwargs[key].(string)
		if !ok {
			return c, fmt.Errorf("agent %s: kwargs.%s of config.json is no text", a.Name, key)
		}
		*into = s
	}
	if t, ok := a.Kwargs[armTasks]; ok {
		if err := json.Unmarshal(raw(t), &c.Tasks); err != nil {
			return c, fmt.Errorf("agent %s: kwargs.%s of config.json is no list of names", a.Name, armTasks)
		}
	}
	if o, ok := a.Kwargs[armOptions]; ok {
		c.Options = raw(o)
	}
	return c, nil
}
