package trial

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Harbor's own model reads what Format writes and writes the same bytes.
func TestHarborAgrees(t *testing.T) {
	python := os.Getenv("HARBOR_PYTHON")
	if python == "" {
		t.Skip("HARBOR_PYTHON is not set: needs a Python with Harbor 0.25 installed")
	}
	dir := t.TempDir()
	full := fullResult(t)
	files := map[string][]byte{}
	for _, name := range harborFiles(t) {
		b, r := readFile(t, name)
		files[filepath.Base(name)] = b
		if err := r.SetAssay(Derive(r)); err != nil {
			t.Fatal(err)
		}
		var err error
		if files["with-record-"+filepath.Base(name)], err = r.Format(); err != nil {
			t.Fatal(err)
		}
	}
	full.AgentResult.ModelUsage = map[string]Usage{"m": {InputTokens: num(1), CacheTokens: num(0), OutputTokens: num(2)}}
	var err error
	if files["full.json"], err = full.Format(); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const script = `
import sys, pathlib
from harbor.models.trial.result import TrialResult
for p in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    text = p.read_text()
    p.with_suffix(".out").write_text(TrialResult.model_validate_json(text).model_dump_json(indent=4))
`
	if out, err := exec.Command(python, "-c", script, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name[:len(name)-len(".json")]+".out"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: Harbor writes it otherwise:\n%s\nassay:\n%s", name, got, want)
		}
	}
}
