package grade

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// harborParser reads lines of "json|txt <base64>" and answers with one line
// each: what Harbor's own verifier makes of such a reward file.
const harborParser = `
import base64, json, pathlib, sys, tempfile, types
from harbor.verifier.verifier import Verifier, RewardFileEmptyError
from harbor.models.verifier.result import VerifierResult
d = pathlib.Path(tempfile.mkdtemp())
v = Verifier.__new__(Verifier)
v.trial_paths = types.SimpleNamespace(reward_text_path=d/"reward.txt", reward_json_path=d/"reward.json")
for line in sys.stdin:
    kind, _, b = line.rstrip("\n").partition(" ")
    path = v.trial_paths.reward_json_path if kind == "json" else v.trial_paths.reward_text_path
    path.write_bytes(base64.b64decode(b))
    try:
        r = v._parse_reward_json() if kind == "json" else v._parse_reward_text()
        r = VerifierResult(rewards=r).rewards
        if r is None: raise TypeError("no rewards")
        for k in r: k.encode()  # half a surrogate pair: read, and then written as U+FFFD; assay refuses it
        out = {"ok": {k: ["float" if isinstance(x, float) else "int", repr(x)] for k, x in r.items()}}
    except RewardFileEmptyError:
        out = {"cause": "reward_empty"}
    except BaseException as e:
        out = {"cause": "reward_malformed", "type": type(e).__name__}
    print(json.dumps(out), flush=True)
    path.unlink()
`

// Every reward file means to assay what it means to Harbor 0.25.
func TestRewardsAsHarbor(t *testing.T) {
	python := os.Getenv("HARBOR_PYTHON")
	if python == "" {
		t.Skip("HARBOR_PYTHON is not set: no Harbor to compare with")
	}
	type input struct{ kind, body string }
	var all []input
	for _, c := range textCases {
		all = append(all, input{"txt", c.in})
	}
	for _, c := range jsonCases {
		if len(c.in) < 1<<14 { // past Python's recursion limit Harbor dies of something else
			all = append(all, input{"json", c.in})
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		all = append(all, input{"txt", randomFrom(r, textBits, 6)})
	}
	for range 3000 {
		all = append(all, input{"json", randomObject(r)})
	}

	script := filepath.Join(t.TempDir(), "parse.py")
	if err := os.WriteFile(script, []byte(harborParser), 0o644); err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	for _, i := range all {
		fmt.Fprintf(&in, "%s %s\n", i.kind, base64.StdEncoding.EncodeToString([]byte(i.body)))
	}
	argv := append(strings.Fields(python), script)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run Harbor's parser: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(all) {
		t.Fatalf("%d answers to %d files", len(lines), len(all))
	}
	accepted := 0
	for i, line := range lines {
		if sameAsHarbor(t, all[i].kind, all[i].body, line) {
			accepted++
		}
	}
	if accepted < 500 {
		t.Errorf("only %d of %d files were accepted: the comparison says little", accepted, len(all))
	}
	t.Logf("%d reward files compared, %d of them accepted by both", len(all), accepted)
}

func sameAsHarbor(t *testing.T, kind, body, line string) (accepted bool) {
	t.Helper()
	var theirs struct {
		OK    map[string][2]string
		Cause string
		Type  string
	}
	if err := json.Unmarshal([]byte(line), &theirs); err != nil {
		t.Fatalf("answer %s: %v", line, err)
	}
	parse := ParseRewardText
	if kind == "json" {
		parse = ParseRewardJSON
	}
	ours, err := parse([]byte(body))
	if err != nil {
		if got := string(err.(*RewardError).Cause); got != theirs.Cause {
			t.Errorf("%s %q: assay says %v (%s), Harbor says %s", kind, clip(body), err, got, line)
		}
		return false
	}
	if theirs.OK == nil || len(theirs.OK) != len(ours) {
		t.Errorf("%s %q: assay says %v, Harbor says %s", kind, clip(body), ours, line)
		return false
	}
	for k, n := range ours {
		want := theirs.OK[k]
		isInt := !strings.ContainsAny(string(n), ".eE")
		a, _ := strconv.ParseFloat(string(n), 64)
		b, _ := strconv.ParseFloat(want[1], 64)
		if isInt != (want[0] == "int") || isInt && string(n) != want[1] || a != b {
			t.Errorf("%s %q: %q is %s to assay and %v to Harbor", kind, clip(body), k, n, want)
		}
	}
	return true
}

// harborMean answers each line, a list of steps' rewards or null, with what
// Harbor makes of them.
const harborMean = `
import json, sys, types
from harbor.trial.trial import Trial
from harbor.models.verifier.result import VerifierResult
for line in sys.stdin:
    steps = [types.SimpleNamespace(verifier_result=None if r is None else VerifierResult(rewards=r)) for r in json.loads(line)]
    out = Trial._aggregate_step_rewards(types.SimpleNamespace(result=types.SimpleNamespace(step_results=steps)))
    print(json.dumps(None if out is None else {k: repr(v) for k, v in out.rewards.items()}))
`

// The mean over steps is Harbor's to the last digit.
func TestMeanAsHarbor(t *testing.T) {
	python := os.Getenv("HARBOR_PYTHON")
	if python == "" {
		t.Skip("HARBOR_PYTHON is not set: no Harbor to compare with")
	}
	r := rand.New(rand.NewPCG(3, 4))
	values := []json.Number{"0", "1", "1", "0.1", "0.2", "0.3", "-2.5", "1e3", "0.30000000000000004", "7", "12345678901234567890", "1e16", "1e-9"}
	var all [][]StepVerdict
	var in bytes.Buffer
	for range 2000 {
		var steps []StepVerdict
		var plain []map[string]json.Number
		for range r.IntN(5) {
			var m map[string]json.Number
			if r.IntN(6) > 0 {
				m = map[string]json.Number{}
				for _, k := range []string{"reward", "a"}[:r.IntN(3)] {
					m[k] = values[r.IntN(len(values))]
				}
			}
			steps, plain = append(steps, StepVerdict{Rewards: m}), append(plain, m)
		}
		if plain == nil {
			plain = []map[string]json.Number{}
		}
		b, err := json.Marshal(plain)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, steps)
		in.Write(append(b, '\n'))
	}
	script := filepath.Join(t.TempDir(), "mean.py")
	if err := os.WriteFile(script, []byte(harborMean), 0o644); err != nil {
		t.Fatal(err)
	}
	argv := append(strings.Fields(python), script)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run Harbor's mean: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(all) {
		t.Fatalf("%d answers to %d trials", len(lines), len(all))
	}
	for i, line := range lines {
		var theirs map[string]json.Number
		var text map[string]string
		if err := json.Unmarshal([]byte(line), &text); err != nil {
			t.Fatal(err)
		}
		for k, v := range text {
			if theirs == nil {
				theirs = map[string]json.Number{}
			}
			theirs[k] = json.Number(v)
		}
		if d := cmp.Diff(theirs, Combine(Mean, all[i])); d != "" {
			t.Errorf("%+v (-Harbor +assay):\n%s", all[i], d)
		}
	}
}

var textBits = []string{
	"0", "1", "9", "12", "1_0", "_", ".", "e", "E", "+", "-", "inf", "nan", "Infinity", "308", "400", "x", " ", "\n", "\t", "\r\n", "\v",
	"\u0661", "\uff11", "\u00a0", "\u2009", "\u200b", "\u1680", "\x1c", "\x85", "\u0085", "\x00", "\ufeff", "²", "½", "Ⅳ", "𝟙", "߁", "%",
}

var valueBits = []string{
	"0", "1", "-1", "-0", "0.5", "1.0", "1e3", "1E-2", "-0.0", "1e309", "-1e400", "1e-400", "NaN", "Infinity", "-Infinity", "true", "false", "null",
	`"1"`, `"NaN"`, "[]", "{}", "[1]", `{"a":1}`, "01", "1.", ".5", "+1", "1e", "0x1", "1_0", "123456789012345678901234567890", "True", "", "1 2",
}

var keyBits = []string{`"reward"`, `"a"`, `"b"`, `"a"`, `""`, `"\u0061"`, `"\ud800"`, `"\ud83d\ude00"`, `"\udc00\ud800"`, `"\\ud800"`, `"é"`, `'a'`, `a`, "\"\x01\"", "\"\x7f\"", `"\x"`, `"\u12"`, "1"}

func randomFrom(r *rand.Rand, bits []string, most int) string {
	var b strings.Builder
	for range 1 + r.IntN(most) {
		b.WriteString(bits[r.IntN(len(bits))])
	}
	return b.String()
}

func randomObject(r *rand.Rand) string {
	pick := func(bits []string, plain int) string {
		if r.IntN(4) > 0 {
			return bits[r.IntN(plain)] // mostly well-formed, so that many are accepted
		}
		return bits[r.IntN(len(bits))]
	}
	var fields []string
	for range r.IntN(4) {
		fields = append(fields, pick(keyBits, 4)+": "+pick(valueBits, 9))
	}
	s := "{" + strings.Join(fields, ", ") + "}"
	switch r.IntN(20) {
	case 0:
		s = randomFrom(r, append(valueBits, "{", "}", ",", ":", "\ufeff", "\xff"), 5)
	case 1:
		s += randomFrom(r, []string{" ", "\n", "x", "\u00a0", "\f", ",", "\x00"}, 2)
	case 2:
		s = randomFrom(r, []string{" ", "\n", "\t", "\ufeff", "\v"}, 2) + s
	}
	return s
}
