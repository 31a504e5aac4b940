package checks

import (
	"encoding/json"

	"assay/internal/grade/program/drivers"
)

// calls tries a group of functions or queries by the judge in Python, in the
// working directory, with the cases where they lie below tests/.
func (s *scripter) calls(c Cases) {
	s.here("cases.py", drivers.Judge())
	group, err := json.Marshal(map[string]any{
		"name": c.Name, "call": c.Call, "source": c.Source, "compare": c.Compare,
		"abs_tol": c.AbsTol, "rel_tol": c.RelTol, "timeout_sec": c.TimeSec,
	})
	if err != nil {
		s.faults = append(s.faults, err)
		return
	}
	s.put("\n# %s\n(\n\tcd \"$work\" && cd %s || exit 127\n", c.Name, quote(cmpDir(c.Dir)))
	s.put("\texec \"$(command -v python3 || echo python)\" -I -B \"$tmp/cases.py\" %s \"$tests/\"%s", quote(string(group)), quote(c.File))
	if c.Reference != "" {
		s.put(" \"$tests/\"%s", quote(c.Reference))
	}
	s.put("\n) </dev/null >>\"$tmp/results\" || doubt='the cases of %s could not be tried'\n", c.Name)
}
