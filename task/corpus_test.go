package task

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the goldens from what the code does now")

// corpusGolden is everything that loading one corpus task gives.
type corpusGolden struct {
	Error  string `json:"error,omitempty"`
	Digest string
	Config []string `json:",omitempty"` // as Encode writes it
	Steps  []Step   `json:",omitempty"`
	Format Format   `json:",omitempty"`
	Briefs []Brief  `json:",omitempty"`
	Keys   []Key    `json:",omitempty"`
	Lint   []string
}

func corpus(t testing.TB) []string {
	t.Helper()
	dirs, err := filepath.Glob("testdata/corpus/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) < 30 {
		t.Fatalf("the corpus has %d tasks, want at least 30", len(dirs))
	}
	return dirs
}

func TestCorpus(t *testing.T) {
	here, err := filepath.Abs("testdata/corpus")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range corpus(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var g corpusGolden
			if g.Digest, err = Digest(dir); err != nil {
				t.Fatal(err)
			}
			task, err := Load(dir)
			if err != nil {
				g.Error = err.Error()
			} else {
				text, err := task.Config.Encode()
				if err != nil {
					t.Fatal(err)
				}
				g.Config, g.Steps, g.Format = strings.Split(string(text), "\n"), task.Steps, task.Format
				for i := range task.Steps {
					g.Briefs = append(g.Briefs, task.Brief(i))
					g.Keys = append(g.Keys, task.Key(i))
				}
			}
			for _, f := range Lint(dir) {
				g.Lint = append(g.Lint, f.String())
			}
			golden(t, "testdata/golden/"+filepath.Base(dir)+".json", g, here)
		})
	}
}

// golden compares v as JSON with a file; paths of this machine are cut.
func golden(t *testing.T, file string, v any, prefix string) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(b.String(), prefix+"/", "")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (run with -update to make it)", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

// Tasks that can be run say what the oracle comes to, for the tests that run
// them.
func TestCorpusExpectations(t *testing.T) {
	runnable := 0
	for _, dir := range corpus(t) {
		task, err := Load(dir)
		name := filepath.Base(dir)
		if strings.HasPrefix(name, "invalid-") != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		expect, ok := task.Config.Metadata.Assay.Rest["expect"].(map[string]any)
		if !ok {
			continue
		}
		runnable++
		if expect["outcome"] == nil || expect["cause"] == nil || task.Config.Metadata.Assay.FallbackImage != "host" {
			t.Errorf("%s: %v on image %q", name, expect, task.Config.Metadata.Assay.FallbackImage)
		}
		if k := task.Key(0); k.Solution == "" || len(k.Tests) == 0 {
			t.Errorf("%s: has no gold solution or no tests: %+v", name, k)
		}
	}
	if runnable < 30 {
		t.Errorf("%d tasks say what they come to, want at least 30", runnable)
	}
}
