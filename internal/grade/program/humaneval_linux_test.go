package program

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
)

// All of HumanEval's own tests as scripts: gold passes each, and no cheat that
// works wherever judge and candidate share a process passes one.
func TestHumanEval(t *testing.T) {
	src := os.Getenv("ASSAY_HUMANEVAL")
	if src == "" || os.Getenv("ASSAY_LONG_CASES") == "" {
		t.Skip("needs ASSAY_HUMANEVAL, which names HumanEval.jsonl.gz, and ASSAY_LONG_CASES")
	}
	p := newPlace(t, "python3")
	f, err := os.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	cheats := map[string]string{}
	for _, name := range []string{"always_equal", "frame_walk", "os_exit", "forged_channel", "equal_subclasses", "patched_driver", "returns_nothing"} {
		b, err := os.ReadFile(filepath.Join("testdata", "cheats", "python", name+".py"))
		if err != nil {
			t.Fatal(err)
		}
		cheats[name] = string(b)
	}
	passed := map[string]int{}
	scan := bufio.NewScanner(z)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var h struct {
			Prompt, Test string
			Entry        string `json:"entry_point"`
			Solution     string `json:"canonical_solution"`
		}
		if err := json.Unmarshal(scan.Bytes(), &h); err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(map[string]any{"id": "check", "script": h.Test + "\ncheck(" + h.Entry + ")\n", "funcs": []string{h.Entry}})
		if err != nil {
			t.Fatal(err)
		}
		s := suite(t, checks.Cases{Call: "python", Source: "solution.py"}, h.Prompt+h.Solution, string(line))
		try := func(name, source string) {
			got := p.run(s, map[string]string{"solution.py": source})["check"]
			if got.Status == report.Passed {
				passed[name]++
			} else if name == "gold" {
				t.Errorf("%s: gold: %s", h.Entry, got.Message)
			}
		}
		try("gold", h.Prompt+h.Solution)
		for name, text := range cheats {
			try(name, strings.ReplaceAll(text, "def secret(x)", "def "+h.Entry+"(*x)"))
		}
	}
	t.Logf("passed: %v", passed)
	if passed["gold"] != 164 || len(passed) != 1 {
		t.Errorf("passed: %v, want 164 of gold and nothing else", passed)
	}
}
