package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/gateway"
	"assay/internal/store"
)

// Group says what a condition belongs to.
type Group string

const (
	Compared    Group = "compared"    // what an arm is: agent and model
	Environment Group = "environment" // image, walls, limits, network
	Clock       Group = "clock"
	Brief       Group = "brief"
	Verifier    Group = "verifier"
	Model       Group = "model" // how the model was asked
	Agent       Group = "agent" // options of the agent
)

// Condition names something that was recorded of a trial.
type Condition struct {
	Group Group  `json:"group"`
	Name  string `json:"name"`
}

// conditions are those of one finished trial.
type conditions map[Condition]string

func (c conditions) set(g Group, name string, v any) {
	text := fmt.Sprint(v)
	if v == nil || text == "" || text == "[]" {
		return
	}
	c[Condition{g, name}] = text
}

// of reads the conditions of a trial; what nobody recorded is absent.
func of(t *store.Trial) (conditions, error) {
	c := conditions{}
	r := t.Record
	c.set(Brief, "task digest", t.Digest)
	c.set(Environment, "image", r.Image.ID)
	c.set(Environment, "image source", r.Image.Source)
	c.set(Environment, "image digest", r.Image.Digest)
	if r.Image.Fallback {
		c.set(Environment, "fallback image", "yes")
	}
	m := r.Modes
	c.set(Environment, "backend", m.Backend)
	c.set(Environment, "uid mode", m.UID)
	c.set(Environment, "network", m.Network)
	c.set(Environment, "outlet", m.Outlet)
	c.set(Environment, "services", m.Services)
	c.set(Verifier, "grade", m.Grade)
	c.set(Verifier, "mode", m.Verifier)
	c.set(Verifier, "network", m.VerifierNetwork)
	c.set(Verifier, "evidence", r.Evidence)
	c.set(Environment, "limits held", sorted(r.Use.LimitsHeld))
	c.set(Environment, "limits not held", sorted(r.Use.LimitsUnheld))
	c.set(Compared, "agent", t.Agent)
	c.set(Compared, "model", t.Model)
	if t.Result != nil {
		c.set(Compared, "agent version", t.Result.AgentInfo.Version)
		if mi := t.Result.AgentInfo.Model; mi != nil && mi.Provider != nil {
			c.set(Compared, "provider", *mi.Provider)
		}
		c.config(t.Result.Config)
	}
	return c, c.traffic(t)
}

func sorted(all []string) string { return strings.Join(slices.Sorted(slices.Values(all)), ", ") }

// identity are keys of a trial's configuration that name the trial or the arm.
func identity() []string {
	return []string{"task", "trial_name", "trials_dir", "job_id", "source_trial", "agent.name", "agent.import_path", "agent.model_name",
		"agent.kwargs.spec", "agent.kwargs.model"}
}

// config takes everything else that the trial's configuration says, flat:
// whatever a later version adds is compared too.
func (c conditions) config(raw json.RawMessage) {
	var v map[string]any
	if json.Unmarshal(raw, &v) != nil {
		return
	}
	flat := map[string]any{}
	flatten("", v, flat, 0)
	for _, name := range slices.Sorted(maps.Keys(flat)) {
		if slices.ContainsFunc(identity(), func(id string) bool { return name == id || strings.HasPrefix(name, id+".") }) {
			continue
		}
		c.set(groupOf(name), name, flat[name])
	}
}

// maxFlat bounds how deep a configuration is taken apart; below, it is text.
const maxFlat = 6

func flatten(at string, v any, into map[string]any, depth int) {
	o, ok := v.(map[string]any)
	if ok && depth < maxFlat && (len(o) > 0 || at == "") {
		for k, x := range o {
			name := k
			if at != "" {
				name = at + "." + k
			}
			flatten(name, x, into, depth+1)
		}
		return
	}
	switch v.(type) {
	case nil:
	case map[string]any, []any:
		b, err := json.Marshal(v)
		if err == nil && string(b) != "{}" && string(b) != "[]" {
			into[at] = string(b)
		}
	default:
		into[at] = v
	}
}

func groupOf(name string) Group {
	switch {
	case strings.Contains(name, "timeout") || strings.Contains(name, "patience"):
		return Clock
	case strings.HasPrefix(name, "extra_instruction"), name == "agent.kwargs.instructions":
		return Brief
	case strings.HasPrefix(name, "verifier"):
		return Verifier
	case strings.HasPrefix(name, "agent"):
		return Agent
	}
	return Environment
}

const modelSent = "model sent"

// traffic takes what the gateway recorded of how the model was asked.
func (c conditions) traffic(t *store.Trial) error {
	if t.Record.Calls == nil {
		return nil // it had no model: a list would be the agent's own
	}
	sets := map[string]map[string]bool{}
	add := func(name, value string) {
		if value == "" {
			return
		}
		if sets[name] == nil {
			sets[name] = map[string]bool{}
		}
		if len(sets[name]) < 1000 {
			sets[name][value] = true
		}
	}
	_, err := modelCalls(t, func(x gateway.Call) {
		add("dialect", string(x.Dialect))
		add("translated to", string(x.Upstream))
		add(modelSent, x.Sent)
		for _, s := range x.Withheld {
			add("withheld tools", s)
		}
		for _, s := range x.Pinned {
			add("pinned parameters", s)
		}
		for _, l := range x.Losses {
			add("lost in translation", lossField(l.Field))
		}
	})
	for name, set := range sets {
		g := Model
		if name == modelSent { // what the arm's model is called at its provider
			g = Compared
		}
		c.set(g, name, strings.Join(slices.Sorted(maps.Keys(set)), ", "))
	}
	c.sampling(t)
	return err
}

// lossField drops indices: messages[3].reasoning and messages[5].reasoning are
// one loss.
func lossField(s string) string {
	var b strings.Builder
	skip := false
	for _, r := range s {
		switch {
		case r == '[':
			skip = true
		case r == ']':
			skip = false
		case !skip:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// sampling takes the parameters that the main conversation began with, where
// its trajectory says them.
func (c conditions) sampling(t *store.Trial) {
	for _, s := range t.Steps {
		doc, err := t.Trajectory(s.Step)
		if err != nil || doc == nil {
			continue
		}
		var n struct{ Sampling map[string]any }
		if json.Unmarshal(doc.Extra["assay"], &n) != nil {
			continue
		}
		for k, v := range n.Sampling {
			c.set(Model, k, v)
		}
		return
	}
}
