package web

import (
	"fmt"

	"assay/trial"
)

// ChecksLabel sums up a check plan's verdict in a few words; empty: there was
// no plan.
func ChecksLabel(c *trial.Checks) string {
	if c == nil {
		return ""
	}
	s := fmt.Sprintf("%d/%d f2p %d/%d p2p", c.FailToPass.Passed, c.FailToPass.Total, c.PassToPass.Passed, c.PassToPass.Total)
	switch {
	case c.Void != "":
		s += " void"
	case c.Strict:
		s += " strict"
	}
	return s
}
