// Package invert breaks healthy environments on purpose, so that mending them
// is the task. An operator is a pure function from the view of a healthy image
// to a delta over it: it runs nothing and opens no sandbox, and what undoes it
// is derived by its parent from what stood there before. Whether a fault bites
// is never assumed: tools fall back in silence, so the admission's own run
// decides.
//
// Faults here are files, because an agent must be able to mend them for good:
// what the suite's commands read when they begin, what tools and interpreters
// load, what the project needs. A fault in a test file would be mended by the
// grader, so no operator touches one.
package invert

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"assay/internal/forge"
)

// Ecosystem is whose tools a fault is in.
type Ecosystem string

const (
	Any    Ecosystem = "any" // of every project: files, sessions
	Python Ecosystem = "python"
	Node   Ecosystem = "node"
	Go     Ecosystem = "go"
	Rust   Ecosystem = "rust"
	Java   Ecosystem = "java"
	Native Ecosystem = "native" // C, C++, and binaries
	Git    Ecosystem = "git"
)

// Family is a kind of fault. Sampling weighs families by how often such faults
// occur in practice.
type Family string

const (
	Config     Family = "config" // parameters and what carries them
	Dependency Family = "dependency"
	FileState  Family = "file"
	Session    Family = "session" // operating system and shell
	Exotic     Family = "exotic"
)

// Share is a family's part of all faults, in hundredths: figures of fault
// injection in practice, where mistaken parameters lead.
func (f Family) Share() float64 {
	switch f {
	case Config:
		return 40
	case Dependency:
		return 30
	case FileState:
		return 15
	case Session:
		return 10
	case Exotic:
		return 5
	}
	return 0
}

// Site is where an operator can be applied, and which of its variants. The
// same image gives the same sites in the same order.
type Site struct {
	Path string `json:"path"`           // absolute: what is changed, or comes to be
	What string `json:"what,omitempty"` // a key, a name, a variant; each operator's own
	Via  string `json:"via,omitempty"`  // a carrier's name
}

func (s Site) String() string {
	out := s.Path
	for _, more := range []string{s.What, s.Via} {
		if more != "" {
			out += " " + more
		}
	}
	return out
}

// Fault is what an operator makes of a site.
type Fault struct {
	Delta forge.Delta
	// Facts are what the fault is, for the task's record and its key; never
	// for the agent.
	Facts map[string]string
}

// Operator is a kind of fault.
type Operator struct {
	Name      string // "python-dependency-missing"; never shown to an agent
	Number    int    // row of the catalogue in docs/environment-faults.md; 0: beyond it
	Ecosystem Ecosystem
	Family    Family
	Realism   int     // 1 to 5: how often people meet it
	Weight    float64 // beside family and realism; 0 means 1
	// Hint is where to look, without what is wrong there: "how the interpreter
	// finds its packages".
	Hint string
	// Masked says why the fault may not bite, where tools are known to fall
	// back. It does not keep the operator from being tried.
	Masked string

	Sites func(g *Ground) []Site
	// Apply fails where a site is not what Sites said. It draws all chance
	// from rng and never changes the ground.
	Apply func(g *Ground, s Site, rng *rand.Rand) (Fault, error)
}

// All lists the operators, in the order of the catalogue.
func All() []Operator {
	return slices.Concat(python(), node(), files(), golang(), rust(), java(), native(), session(), git(), ci())
}

// check refuses an operator that was written down wrongly, and names it.
func (o Operator) check() error {
	if o.Name == "" || o.Ecosystem == "" || o.Family.Share() == 0 || o.Realism < 1 || o.Realism > 5 ||
		o.Hint == "" || o.Sites == nil || o.Apply == nil {
		return fmt.Errorf("operator %q is incomplete", o.Name)
	}
	return nil
}

// weight is how often the operator is drawn among those of its family.
func (o Operator) weight() float64 {
	w := o.Weight
	if w == 0 {
		w = 1
	}
	return w * float64(o.Realism)
}
