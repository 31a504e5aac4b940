package model

import (
	"encoding/json"
	"maps"
	"slices"
)

// Loss is something that a dialect cannot express. Field names a kind of
// place, not each one of them: a conversation of a thousand messages loses
// "messages[].cache_control" once.
type Loss struct {
	Field string `json:"field"` // "messages[].reasoning", "tools[web_search]"
	Why   string `json:"why"`
}

// Losses collects losses, each field once.
type Losses struct{ list []Loss }

// maxLosses bounds what a request full of invented fields puts on record.
const maxLosses = 100

// Add notes one.
func (l *Losses) Add(field, why string) {
	if len(l.list) == maxLosses {
		l.list = append(l.list, Loss{Field: "…", Why: "and more"})
	}
	if len(l.list) > maxLosses {
		return
	}
	if !slices.ContainsFunc(l.list, func(x Loss) bool { return x.Field == field }) {
		l.list = append(l.list, Loss{Field: field, Why: why})
	}
}

// Signed notes that a part of this kind is signed, which a dialect has no place
// for.
func (l *Losses) Signed(kind PartKind) {
	l.Add("messages[]."+string(kind)+".signature", "signed or encrypted, which has no place there")
}

// All lists them in the order in which they were noted.
func (l *Losses) All() []Loss { return slices.Clone(l.list) }

// Unknown notes fields that the layer does not know and that belong to
// another dialect.
func (l *Losses) Unknown(place string, from Dialect, extra map[string]json.RawMessage) {
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		l.Add(place+k, "a field of "+string(from)+" that is not translated")
	}
}
