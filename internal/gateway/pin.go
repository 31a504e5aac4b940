package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/model"
)

// Pin overrides what an agent asks of the generation, so that agents can be
// compared under the same conditions. Everything else passes as it came.
type Pin struct {
	Sampling model.Sampling // what is set in every request
	// Drop takes parameters out, by the names of model.Sampling's fields
	// ("temperature", "max_tokens", …) and "penalties"; "*": all that are not set.
	Drop []string
}

// paramPaths says where a parameter stands in a request of a dialect. Of
// several places the first is used where none is there yet.
func paramPaths(d model.Dialect) map[string][]string {
	switch d {
	case model.Chat:
		return map[string][]string{
			"temperature": {"temperature"}, "top_p": {"top_p"}, "top_k": {"top_k"}, "max_tokens": {"max_tokens", "max_completion_tokens"},
			"stop": {"stop"}, "seed": {"seed"}, "effort": {"reasoning_effort"}, "penalties": {"presence_penalty", "frequency_penalty"},
		}
	case model.Responses:
		return map[string][]string{
			"temperature": {"temperature"}, "top_p": {"top_p"}, "max_tokens": {"max_output_tokens"}, "effort": {"reasoning.effort"},
		}
	case model.Messages:
		return map[string][]string{
			"temperature": {"temperature"}, "top_p": {"top_p"}, "top_k": {"top_k"}, "max_tokens": {"max_tokens"},
			"stop": {"stop_sequences"}, "effort": {"output_config.effort"},
		}
	}
	return map[string][]string{
		"temperature": {"generationConfig.temperature"}, "top_p": {"generationConfig.topP"}, "top_k": {"generationConfig.topK"},
		"max_tokens": {"generationConfig.maxOutputTokens"}, "stop": {"generationConfig.stopSequences"}, "seed": {"generationConfig.seed"},
		"penalties": {"generationConfig.presencePenalty", "generationConfig.frequencyPenalty"},
	}
}

// set are the parameters that s says, by name.
func set(s model.Sampling) map[string]json.RawMessage {
	b, _ := json.Marshal(s) // numbers and strings always can
	var all map[string]json.RawMessage
	_ = json.Unmarshal(b, &all) // what was just written
	return all
}

// needed may not be dropped: the messages dialect has no default for it.
func needed(d model.Dialect, name string) bool { return d == model.Messages && name == "max_tokens" }

// pin adds to e what the job has decided about parameters.
func (a *asked) pin(e edit) {
	d, fixed := a.route.dialect, set(a.s.conf.Pin.Sampling)
	paths := paramPaths(d)
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		v, pinned := fixed[name]
		if !pinned && (!a.s.conf.Pin.drops(name) || needed(d, name)) {
			continue
		}
		there := slices.DeleteFunc(slices.Clone(paths[name]), func(p string) bool { return a.at(e, p) == nil })
		switch {
		case pinned && len(there) == 0:
			there = paths[name][:1]
		case len(there) == 0:
			continue
		}
		for _, p := range there {
			a.put(e, p, v)
		}
		a.call.Pinned = append(a.call.Pinned, pinNote(name, v))
	}
}

func (p Pin) drops(name string) bool {
	return slices.Contains(p.Drop, name) || slices.Contains(p.Drop, "*")
}

func pinNote(name string, v json.RawMessage) string {
	if v == nil {
		return "-" + name
	}
	return name + "=" + clip(string(v), 100)
}

// at returns the value at a path of the body as e leaves it; nil: none.
func (a *asked) at(e edit, path string) json.RawMessage {
	outer, inner, nested := strings.Cut(path, ".")
	v := a.value(e, outer)
	if !nested || v == nil {
		return v
	}
	fields, err := a.inner(v)
	if err != nil {
		return nil
	}
	for _, f := range fields {
		if f.key == inner {
			return f.value.of(v)
		}
	}
	return nil
}

// inner lists the members of a nested object.
func (a *asked) inner(v json.RawMessage) ([]member, error) {
	fields, err := members(v, span{0, len(v)})
	if err == nil && a.route.dialect == model.Gemini && !camels(fields) {
		err = errNotObject // in two spellings: it is replaced as a whole
	}
	return fields, err
}

func (a *asked) value(e edit, key string) json.RawMessage {
	if v, ok := e[key]; ok {
		return v
	}
	for _, m := range a.members {
		if m.key == key {
			return m.value.of(a.body)
		}
	}
	return nil
}

// put sets the value at a path; nil removes it.
func (a *asked) put(e edit, path string, v json.RawMessage) {
	outer, inner, nested := strings.Cut(path, ".")
	if !nested {
		e[outer] = v
		return
	}
	old := a.value(e, outer)
	if old == nil {
		old = json.RawMessage("{}")
	}
	fields, err := a.inner(old)
	if err != nil {
		old, fields = json.RawMessage("{}"), nil
	}
	e[outer] = edit{inner: v}.apply(old, fields)
}

// pinned is the same for a request that is translated.
func (a *asked) pinned(s *model.Sampling) {
	p := a.s.conf.Pin
	fixed := set(p.Sampling)
	for name, clear := range map[string]func(){
		"temperature": func() { s.Temperature = nil }, "top_p": func() { s.TopP = nil }, "top_k": func() { s.TopK = nil },
		"max_tokens": func() { s.MaxTokens = nil }, "stop": func() { s.Stop = nil }, "seed": func() { s.Seed = nil }, "effort": func() { s.Effort = "" },
	} {
		if _, was := set(*s)[name]; was && p.drops(name) && fixed[name] == nil {
			clear()
			a.call.Pinned = append(a.call.Pinned, pinNote(name, nil))
		}
	}
	for name, v := range fixed {
		a.call.Pinned = append(a.call.Pinned, pinNote(name, v))
	}
	slices.Sort(a.call.Pinned)
	b, _ := json.Marshal(p.Sampling) // numbers and strings always can
	_ = json.Unmarshal(b, s)         // fields that are not said stay
}

// CheckPin says what is wrong with p.
func CheckPin(p Pin) error {
	known := paramPaths(model.Chat)
	for _, name := range p.Drop {
		if _, ok := known[name]; !ok && name != "*" {
			return fmt.Errorf("no parameter is called %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return nil
}
