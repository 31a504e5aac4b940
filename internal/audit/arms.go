package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"assay/internal/gateway"
	"assay/internal/store"
)

// Arm is an agent with its model, as a job's trials name them.
type Arm struct {
	Agent string `json:"agent"`
	Model string `json:"model,omitempty"`
}

// String is the arm as jobs label it.
func (a Arm) String() string {
	if a.Model == "" {
		return a.Agent
	}
	return a.Agent + " with " + a.Model
}

// Arms are those of a job, in the order of its trials.
func Arms(v *store.View) (all []Arm) {
	for _, t := range v.Trials {
		if a := (Arm{t.Agent, t.Model}); !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// FindArm finds an arm by its label, or by its agent or model where that names
// one alone.
func FindArm(arms []Arm, name string) (Arm, error) {
	var found []Arm
	for _, a := range arms {
		if a.String() == name {
			return a, nil
		}
		if a.Agent == name || a.Model == name {
			found = append(found, a)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	var all []string
	for _, a := range arms {
		all = append(all, fmt.Sprintf("%q", a))
	}
	if len(found) > 1 {
		return Arm{}, fmt.Errorf("%q names %d arms; the job's are %s", name, len(found), strings.Join(all, ", "))
	}
	return Arm{}, fmt.Errorf("no arm is called %q; the job's are %s", name, strings.Join(all, ", "))
}

const (
	callsFile  = "agent/model/calls.ndjson"
	ledgerFile = "egress.ndjson"
	maxLine    = 4 << 20
	maxLines   = 1_000_000
)

// bases are the places below a trial that hold agent/ and verifier/: itself,
// and its steps.
func bases(t *store.Trial) []string {
	all := []string{""}
	for _, s := range t.Steps {
		if s.Step != "" {
			all = append(all, store.StepsDir+"/"+s.Step+"/")
		}
	}
	return all
}

// lines gives f every line of a trial's file that is a JSON object; a file that
// is not there has none. It counts those that could not be read.
func lines(t *store.Trial, name string, f func(line []byte) bool) (bad int, err error) {
	file, err := t.Open(name)
	if errors.Is(err, fs.ErrNotExist) || err != nil && strings.HasSuffix(err.Error(), "no such file") {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	s := bufio.NewScanner(io.Reader(file))
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	for n := 0; n < maxLines && s.Scan(); n++ {
		if len(s.Bytes()) > 0 && !f(s.Bytes()) {
			bad++
		}
	}
	if s.Err() != nil {
		bad++ // a line too long: nothing after it is read
	}
	return bad, nil
}

// modelCalls gives f every recorded call of a trial.
func modelCalls(t *store.Trial, f func(gateway.Call)) (bad int, err error) {
	for _, base := range bases(t) {
		n, err := lines(t, base+callsFile, func(line []byte) bool {
			var c gateway.Call
			if json.Unmarshal(line, &c) != nil {
				return false
			}
			f(c)
			return true
		})
		if err != nil {
			return bad, err
		}
		bad += n
	}
	return bad, nil
}
