package trajectory

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Harbor's own validator says the same of every document, and of the scalars
// and times that the reference reads laxly.
func TestHarborAgrees(t *testing.T) {
	python := os.Getenv("HARBOR_PYTHON")
	if python == "" {
		t.Skip("HARBOR_PYTHON is not set: needs a Python with Harbor 0.25 installed")
	}
	all := corpus()
	for _, s := range times() {
		all = append(all, doc{name: "time " + s, json: userDoc(`"timestamp":` + quote(s))})
	}
	for _, v := range scalars() {
		all = append(all,
			doc{name: "integer " + v, json: agentDoc(`"metrics":{"prompt_tokens":` + v + `}`)},
			doc{name: "count " + v, json: agentDoc(`"llm_call_count":` + v)},
			doc{name: "float " + v, json: agentDoc(`"metrics":{"cost_usd":` + v + `}`)},
			doc{name: "boolean " + v, json: agentDoc(`"is_copied_context":` + v)},
			doc{name: "effort " + v, json: agentDoc(`"reasoning_effort":` + v)},
			doc{name: "duration " + v, json: partDoc(`{"type":"audio","source":{"media_type":"audio/wav","path":"s://p","duration_sec":` + v + `}}`)})
	}
	all = append(all, mutants(t, corpus(), 1500)...)
	dir := corpusDir(t, all)
	const script = `
import sys, json, pathlib
from harbor.utils.trajectory_validator import TrajectoryValidator
v = TrajectoryValidator()
out = {}
for p in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    try:
        out[p.name] = [] if v.validate(p) else v.get_errors()
    except Exception as e: # it looks for media files in steps that are no objects
        out[p.name] = v.get_errors() + [repr(e)]
print(json.dumps(out))
`
	cmd := exec.Command(python, "-c", script, dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var theirs map[string][]string
	if err := json.Unmarshal(out, &theirs); err != nil {
		t.Fatal(err)
	}
	for i, d := range all {
		name := fmt.Sprintf("%03d.json", i)
		ours, err := ValidateFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		their, ok := theirs[name]
		if !ok || (len(their) == 0) != (len(ours) == 0) {
			t.Errorf("%s: ours %v, Harbor's %v\n%s", d.name, ours, their, d.json)
		}
	}
	t.Logf("%d documents", len(all))
}

// mutants are documents of the corpus with one value at a random place
// replaced, removed or joined by another key.
func mutants(t *testing.T, from []doc, n int) (all []doc) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	values := append(scalars(), "null", userStep, `"audio/mp3"`, `"agent"`, `"system"`, `[null]`, `[{}]`, `{"results":[{}]}`)
	keys := []string{"extra", "metrics", "message", "source", "text", "type", "results", "x", "llm_call_count", "trajectory_id", "timestamp"}
	for len(all) < n {
		d := from[random.IntN(len(from))]
		root, err := decode([]byte(d.json))
		if err != nil {
			continue
		}
		value, err := decode([]byte(values[random.IntN(len(values))]))
		if err != nil {
			t.Fatal(err)
		}
		mutate(random, root, value, keys[random.IntN(len(keys))])
		b, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, doc{name: "mutant of " + d.name, json: string(b)})
	}
	return all
}

// mutate walks down to a random place and changes it.
func mutate(random *rand.Rand, at, value any, key string) {
	switch node := at.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(node))
		if len(names) == 0 || random.IntN(8) == 0 {
			node[key] = value
			return
		}
		k := names[random.IntN(len(names))]
		if deep(node[k]) && random.IntN(4) > 0 {
			mutate(random, node[k], value, key)
		} else if random.IntN(4) == 0 {
			delete(node, k)
		} else {
			node[k] = value
		}
	case []any:
		if len(node) == 0 {
			return
		}
		i := random.IntN(len(node))
		if deep(node[i]) && random.IntN(5) > 0 {
			mutate(random, node[i], value, key)
		} else {
			node[i] = value
		}
	}
}

func deep(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}
