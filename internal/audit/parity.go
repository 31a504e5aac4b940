package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/store"
)

// Parity is the comparison of two arms.
type Parity struct {
	A           Arm          `json:"a"`
	B           Arm          `json:"b"`
	Tasks       int          `json:"tasks"`      // that both worked on
	Conditions  int          `json:"conditions"` // that were compared
	Differences []Difference `json:"differences"`
	Notes       []string     `json:"notes,omitempty"` // what could not be compared
}

// Difference is a condition in which two arms differ.
type Difference struct {
	Condition
	A     []string `json:"a"` // values of the first arm's trials; empty: not recorded
	B     []string `json:"b"`
	Tasks []string `json:"tasks"` // where they differ; "" for the job itself
}

// Unequal are the differences in what should be equal: all but what an arm is,
// and but those named in except.
func (p Parity) Unequal(except []string) (all []Difference) {
	for _, d := range p.Differences {
		if d.Group != Compared && !slices.Contains(except, d.Name) {
			all = append(all, d)
		}
	}
	return all
}

// Compare compares the finished trials of two arms, task by task.
func Compare(v *store.View, a, b Arm) (Parity, error) {
	p := Parity{A: a, B: b, Differences: []Difference{}}
	left, right := map[string][]conditions{}, map[string][]conditions{}
	unfinished := 0
	for _, t := range v.Trials {
		into := map[Arm]map[string][]conditions{a: left, b: right}[Arm{t.Agent, t.Model}]
		if into == nil {
			continue
		}
		if t.Status != store.TrialFinished {
			unfinished++
			continue
		}
		if t.Derived {
			p.note("trials of another harness record few conditions")
		}
		c, err := of(t)
		if err != nil {
			return p, fmt.Errorf("conditions of trial %q: %w", t.Name, err)
		}
		into[t.Task] = append(into[t.Task], c)
	}
	if unfinished > 0 {
		p.note(fmt.Sprintf("%d trials without a result are left out", unfinished))
	}
	found := map[Condition]*Difference{}
	names := map[Condition]bool{}
	for _, task := range tasksOf(left, right) {
		x, y := left[task], right[task]
		if len(x) != len(y) {
			p.differ(found, Condition{Environment, "trials of a task"}, task, []string{fmt.Sprint(len(x))}, []string{fmt.Sprint(len(y))})
		}
		if len(x) == 0 || len(y) == 0 {
			continue
		}
		p.Tasks++
		p.task(found, names, task, x, y)
	}
	p.Conditions = len(names)
	for _, d := range found {
		p.Differences = append(p.Differences, *d)
	}
	slices.SortFunc(p.Differences, func(x, y Difference) int {
		return cmp.Or(cmp.Compare(order(x.Group), order(y.Group)), cmp.Compare(x.Name, y.Name))
	})
	return p, nil
}

func (p *Parity) note(s string) {
	if !slices.Contains(p.Notes, s) {
		p.Notes = append(p.Notes, s)
	}
}

func order(g Group) int {
	return slices.Index([]Group{Compared, Brief, Environment, Clock, Verifier, Model, Agent}, g)
}

func tasksOf(all ...map[string][]conditions) []string {
	set := map[string]bool{}
	for _, m := range all {
		for k := range m {
			set[k] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// task compares the values of every condition over the trials of one task.
func (p *Parity) task(found map[Condition]*Difference, names map[Condition]bool, task string, x, y []conditions) {
	here := map[Condition]bool{}
	for _, c := range append(slices.Clone(x), y...) {
		for k := range c {
			here[k], names[k] = true, true
		}
	}
	for k := range here {
		if a, b := values(x, k), values(y, k); !slices.Equal(a, b) {
			p.differ(found, k, task, a, b)
		}
	}
}

// values are those of a condition, each once; a trial that does not record it
// counts as "not recorded" where others do.
func values(all []conditions, k Condition) []string {
	set := map[string]bool{}
	for _, c := range all {
		if v, ok := c[k]; ok {
			set[v] = true
		} else {
			set[""] = true
		}
	}
	if len(set) == 1 && set[""] {
		return []string{}
	}
	if set[""] {
		delete(set, "")
		set["(not recorded)"] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// differ adds a task to a difference, or begins one. Values of several tasks
// are joined.
func (p *Parity) differ(found map[Condition]*Difference, c Condition, task string, a, b []string) {
	d := found[c]
	if d == nil {
		d = &Difference{Condition: c}
		found[c] = d
	}
	d.A, d.B = union(d.A, a), union(d.B, b)
	d.Tasks = append(d.Tasks, task)
}

func union(x, y []string) []string {
	all := append([]string{}, x...)
	for _, s := range y {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// Words are the values of one side for people.
func Words(values []string) string {
	if len(values) == 0 {
		return "–"
	}
	return strings.Join(values, " | ")
}
