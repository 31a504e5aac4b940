package cli

import (
	"bytes"
	"encoding/json"
	"os"

	"assay/internal/exchange"
	"assay/internal/importer"
	"assay/internal/importer/swebench"
)

// swebenchImport are the choices of instances in SWE-bench's form.
type swebenchImport struct {
	Repos       string `placeholder:"DIR" help:"swebench, swe-smith: clones of the repositories (DIR/OWNER__NAME, DIR/OWNER/NAME or DIR/NAME); each task then builds an image of its own from the tree at base_commit, without its history. Default: the published images."`
	Clone       string `placeholder:"URL" help:"swebench: build images that fetch base_commit from URL/OWNER/NAME."`
	Base        string `placeholder:"IMAGE" help:"swebench: what images of --repos and --clone stand on. Default: debian:bookworm-slim, or the pseudo-image host where that is missing."`
	Hints       bool   `help:"swebench: append hints_text to the instruction."`
	TestCommand string `name:"test-command" placeholder:"CMD" help:"swebench, swe-smith: run tests so in rows without an eval_script; the test files are appended."`
	Setup       string `placeholder:"CMD" help:"swebench, swe-smith: run this before it. Default: activate the conda environment of SWE-bench's images."`
	IDs         string `name:"ids" placeholder:"FILE" help:"swebench, swe-smith: write every fault of an expected test id as a JSON line."`

	found []exchange.IDFinding
	notes []string
}

func (s *swebenchImport) importers() []importer.Importer {
	im := swebench.Importer{
		Repos: s.Repos, Clone: s.Clone, Base: s.Base, Hints: s.Hints, TestCommand: s.TestCommand, Setup: s.Setup,
		Found: func(f exchange.IDFinding) { s.found = append(s.found, f) },
		Note:  func(task, text string) { s.notes = append(s.notes, task+": "+text) },
	}
	smith := im
	smith.Smith = true
	return []importer.Importer{im, smith}
}

// shownFaults is how many faults of ids, and how many notes, are printed.
const shownFaults = 10

// tell says what the import found in the data set.
func (s *swebenchImport) tell(a *app) error {
	if s.IDs != "" {
		var b bytes.Buffer
		for _, f := range s.found {
			if err := json.NewEncoder(&b).Encode(f); err != nil {
				return err
			}
		}
		if err := os.WriteFile(s.IDs, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	kinds := map[exchange.IDFault]int{}
	for i, f := range s.found {
		if kinds[f.Fault]++; i < shownFaults {
			a.say("%s", f)
		}
	}
	if n := len(s.found); n > shownFaults {
		a.say("… and %d more faults of test ids (--ids FILE writes all)", n-shownFaults)
	}
	for _, k := range []exchange.IDFault{exchange.IDTruncated, exchange.IDAmbiguous, exchange.IDSpace, exchange.IDMangled, exchange.IDTwice, exchange.IDBoth, exchange.IDUnicode} {
		if kinds[k] > 0 {
			a.say("%d test ids: %s", kinds[k], k)
		}
	}
	for i, n := range s.notes {
		if i < shownFaults {
			a.say("%s", n)
		}
	}
	if n := len(s.notes); n > shownFaults {
		a.say("… and %d more notes", n-shownFaults)
	}
	return nil
}
