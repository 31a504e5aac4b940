package job

import (
	"fmt"
	"strings"
)

// Impossible is an error that names agents which cannot work on tasks of the
// job, as they say themselves before anything starts; nil: there are none.
func (c Config) Impossible() error {
	const most = 5
	var pairs []string
	for _, arm := range c.Arms {
		for _, t := range c.Tasks {
			for i := range t.Steps {
				if _, err := arm.Agent.Needs(arm.brief(t.Brief(i))); err != nil {
					pairs = append(pairs, fmt.Sprintf("%s, %s: %v", t.Name, arm.label(), err))
					break
				}
			}
		}
	}
	switch n := len(pairs); {
	case n == 0:
		return nil
	case n > most:
		pairs = append(pairs[:most], fmt.Sprintf("and %d more", n-most))
	}
	return fmt.Errorf("agents that cannot work on their tasks:\n  %s", strings.Join(pairs, "\n  "))
}
