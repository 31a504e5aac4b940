package decide

import (
	"sort"
	"strings"
	"time"

	"assay/internal/repo"
)

// suite is the environment's, arranged for looking up.
type suite struct {
	commands []*command
	cover    *repo.Coverage
}

type command struct {
	repo.Command
	tests []*test // stable ones alone, in the order in which they are best run
	byID  map[string]*test
}

type test struct {
	*repo.Test
	index int // in the environment's suite
}

func newSuite(env *repo.Environment) *suite {
	s := &suite{cover: env.Suite.Coverage()}
	for _, c := range env.Suite.Commands {
		s.commands = append(s.commands, &command{Command: c, byID: map[string]*test{}})
	}
	for i := range env.Suite.Tests {
		t := &env.Suite.Tests[i]
		if t.Stability != repo.Stable {
			continue
		}
		for _, c := range s.commands {
			if c.Name == t.Command {
				x := &test{Test: t, index: i}
				c.tests = append(c.tests, x)
				c.byID[t.ID] = x
			}
		}
	}
	for _, c := range s.commands {
		c.arrange()
	}
	return s
}

// arrange puts quick files before slow ones. Inside of a file the suite's own
// order stays: tests share fixtures with their neighbours.
func (c *command) arrange() {
	millis, first := map[string]float64{}, map[string]int{}
	for i, t := range c.tests {
		f := t.place()
		if _, ok := first[f]; !ok {
			first[f] = i
		}
		millis[f] += t.Millis
	}
	sort.SliceStable(c.tests, func(a, b int) bool {
		x, y := c.tests[a].place(), c.tests[b].place()
		if x != y && millis[x] != millis[y] {
			return millis[x] < millis[y]
		}
		return first[x] < first[y]
	})
}

// place is what a test shares fixtures with: its file, else what its id begins
// with.
func (t *test) place() string {
	if t.File != "" {
		return t.File
	}
	place, _, ok := strings.Cut(t.ID, "::")
	if !ok {
		return ""
	}
	return place
}

func (t *test) global() string { return t.Command + ":" + t.ID }

// floor is the least time limit: below it a busy machine would decide.
const floor = 10 * time.Second

// limit is what a run of the command may take, its build included.
func (d *Decider) limit(c *command) time.Duration {
	return max(d.c.Floor, 3*time.Duration(c.BaselineMillis*float64(time.Millisecond)))
}
