package atif

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"assay/trajectory"
)

// Harbor's own validator takes what hostile and ordinary traffic becomes.
func TestHarborTakesThem(t *testing.T) {
	python := os.Getenv("HARBOR_PYTHON")
	if python == "" {
		t.Skip("HARBOR_PYTHON is not set: needs a Python with Harbor 0.25 installed")
	}
	dir := t.TempDir()
	var docs []*trajectory.Trajectory
	for _, k := range talks() {
		d, err := Build(info(), brief, k.xs, Options{Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, d)
	}
	for _, codec := range codecs() {
		_, d := session(t, codec, true)
		docs = append(docs, d)
	}
	for i, d := range docs {
		b, err := trajectory.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.json", i)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const script = `
import sys, pathlib
from harbor.utils.trajectory_validator import TrajectoryValidator
v, n = TrajectoryValidator(), 0
for p in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    n += 1
    if not v.validate(p): print(p.name, v.get_errors())
print(n)
`
	out, err := exec.Command(python, "-c", script, dir).CombinedOutput()
	if want := fmt.Sprintln(len(docs)); err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}

// What plain lets through is JSON and text for every reader.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `"\ud800"`, "\"\xff\"", `[[[`, `{"a":1e999}`, `{"\uD83D\uDE00":[]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		out, ok := plain(raw)
		if !ok {
			return
		}
		if !json.Valid(out) || !utf8.Valid(out) {
			t.Errorf("%q", out)
		}
		if again, ok := plain(out); !ok || string(again) != string(out) {
			t.Errorf("%q becomes %q", out, again)
		}
	})
}
