package atif

import (
	"fmt"
	"strings"

	"assay/internal/model"
	"assay/trajectory"
)

// context writes what a request adds to what was said before: results go to
// the step of their call, anything else becomes steps.
func (s *steps) context(n *node) {
	for i := 0; i < len(n.delta); {
		j := i + 1
		for j < len(n.delta) && n.delta[j].msg == n.delta[i].msg && n.delta[j].role == n.delta[i].role {
			j++
		}
		s.message(n, n.delta[i:j])
		i = j
	}
}

// message writes the atoms of one message.
func (s *steps) message(n *node, atoms []atom) {
	if atoms[0].assistant() {
		s.repeated(n, atoms)
		return
	}
	var texts []string
	for _, x := range atoms {
		switch x.part.Kind {
		case model.PartResult:
			s.result(n, x.part.Result)
		case model.PartMedia:
			texts = append(texts, mediaText(x.part.Media))
		default:
			texts = append(texts, x.part.Text)
		}
	}
	if len(texts) == 0 {
		return
	}
	text := trajectory.Text(s.w.pen.cut(strings.Join(texts, "\n\n")))
	if i := len(s.all) - 1; i >= 0 && awaits(&s.all[i]) && atoms[0].role != model.RoleSystem {
		observe(&s.all[i], trajectory.ObservationResult{CallID: s.all[i].ToolCalls[0].ID, Content: &text})
		return
	}
	source := trajectory.User
	if atoms[0].role == model.RoleSystem {
		source = trajectory.System
	}
	s.add(trajectory.Step{Source: source, Timestamp: stamp(n.call.Time), Message: text})
}

// awaits says whether a step's command was read out of its text and has no
// answer yet.
func awaits(x *trajectory.Step) bool {
	return x.Source == trajectory.Agents && x.Observation == nil && len(x.ToolCalls) == 1 &&
		strings.HasPrefix(x.ToolCalls[0].ID, "text-") && strings.Contains(string(x.ToolCalls[0].Extra["assay"]), `"form":"text"`)
}

// repeated writes what a request says in the model's name and no answer of
// this conversation did: copied from before a compaction, or the client's own
// words.
func (s *steps) repeated(n *node, atoms []atom) {
	x := trajectory.Step{Source: trajectory.Agents, Timestamp: stamp(n.call.Time)}
	copied := true
	var texts []string
	for _, at := range atoms {
		copied = copied && s.w.said[at.key]
		switch {
		case at.part.Call != nil:
			x.ToolCalls = append(x.ToolCalls, s.call(*at.part.Call))
		case at.part.Media != nil:
			texts = append(texts, mediaText(at.part.Media))
		default:
			texts = append(texts, at.part.Text)
		}
	}
	x.Message = trajectory.Text(s.w.pen.cut(strings.Join(texts, "\n\n")))
	x.CopiedContext = &copied
	if !copied {
		x.CopiedContext, x.LLMCalls = nil, new(int64)
		x.Extra = note(turnNote{Injected: true})
	}
	s.add(x)
}

// waiting are calls of one step without an answer, by id or by name. Calls of
// one id are the same to whoever reads the document; those of one name are not.
type waiting struct {
	step int
	left int      // of an id
	ids  []string // of a name, in order
}

// expect notes the calls of a step that was added.
func (s *steps) expect(step int) {
	for _, c := range s.all[step].ToolCalls {
		last := s.latest("id "+c.ID, step)
		last.left++
		last = s.latest("name "+c.Function, step)
		last.ids = append(last.ids, c.ID)
	}
}

func (s *steps) latest(key string, step int) *waiting {
	all := s.open[key]
	if len(all) == 0 || all[len(all)-1].step != step {
		all = append(all, &waiting{step: step})
		s.open[key] = all
	}
	return all[len(all)-1]
}

// answered finds the latest step with a call of that id that has no answer yet,
// else of that name, and takes it.
func (s *steps) answered(id, name string) (step int, call string, ok bool) {
	if step, ok := s.take(id); id != "" && ok {
		return step, id, true
	}
	for all := s.open["name "+name]; name != "" && len(all) > 0; all = s.open["name "+name] {
		w := all[len(all)-1]
		if len(w.ids) == 0 {
			s.open["name "+name] = all[:len(all)-1]
			continue
		}
		id, w.ids = w.ids[0], w.ids[1:]
		if q := s.open["id "+id]; len(q) > 0 && q[len(q)-1].step == w.step && q[len(q)-1].left > 0 {
			s.take(id)
			return w.step, id, true
		}
	}
	return 0, "", false
}

func (s *steps) take(id string) (step int, ok bool) {
	for all := s.open["id "+id]; len(all) > 0; all = s.open["id "+id] {
		if w := all[len(all)-1]; w.left > 0 {
			w.left--
			return w.step, true
		}
		s.open["id "+id] = all[:len(all)-1]
	}
	return 0, false
}

// result puts what a tool gave beside its call: the one with its id, else of
// its name, that has no answer yet.
func (s *steps) result(n *node, r *model.Result) {
	content := s.content(r)
	out := trajectory.ObservationResult{Content: &content}
	if r.Error {
		out.Extra = note(map[string]bool{"error": true})
	}
	if step, id, ok := s.answered(clean(r.CallID), clean(r.Name)); ok {
		out.CallID = id
		observe(&s.all[step], out)
		return
	}
	out.Extra = note(map[string]string{"answers": clean(r.CallID + r.Name)})
	s.add(trajectory.Step{Source: trajectory.System, Timestamp: stamp(n.call.Time), Message: trajectory.Text(""),
		Observation: &trajectory.Observation{Results: []trajectory.ObservationResult{out}}})
}

func observe(x *trajectory.Step, r trajectory.ObservationResult) {
	if x.Observation == nil {
		x.Observation = &trajectory.Observation{}
	}
	x.Observation.Results = append(x.Observation.Results, r)
}

func (s *steps) content(r *model.Result) trajectory.Content {
	var texts []string
	for _, p := range r.Parts {
		if p.Kind == model.PartMedia {
			texts = append(texts, mediaText(p.Media))
		} else {
			texts = append(texts, p.Text)
		}
	}
	return trajectory.Text(s.w.pen.cut(strings.Join(texts, "\n")))
}

// mediaText stands for an image or a sound: its bytes are in the record of the
// gateway, and a document may only name files and URLs.
func mediaText(m *model.Media) string {
	switch {
	case m == nil:
		return ""
	case m.URL != "":
		return fmt.Sprintf("[%s at %s]", m.Type, head(m.URL, maxLate))
	}
	return fmt.Sprintf("[%s, %d bytes of base64]", m.Type, len(m.Data))
}

// maxName bounds names and ids.
const maxName = 512

// clean makes a name or an id fit for a document.
func clean(s string) string { return strings.ToValidUTF8(head(s, maxName), "\ufffd") }
