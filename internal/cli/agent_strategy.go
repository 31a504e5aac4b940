package cli

import (
	"os"
	"strings"

	"assay/internal/agent/builtin"
)

// strategy prints what react's strategy comes to; ok is false for every other
// agent.
func (a *app) strategy(g *grammar, spec string) (ok bool, err error) {
	name, arg, _ := strings.Cut(spec, ":")
	if name != "react" {
		return false, nil
	}
	s, err := builtin.ParseStrategy(arg, os.ReadFile)
	if err != nil {
		return true, usage(err)
	}
	if g.JSON {
		return true, a.emit("strategy", s)
	}
	b, err := s.Format()
	if err != nil {
		return true, err
	}
	_, err = a.Stdout.Write(b)
	return true, err
}
