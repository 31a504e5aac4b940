package trajectory

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// doc is one document of the corpus: valid where rule is empty, else broken by
// that rule alone, at that path.
type doc struct {
	name string
	rule Rule
	path string
	json string
}

const (
	head      = `{"schema_version":"ATIF-v1.8","agent":{"name":"a","version":"1"},`
	userStep  = `{"step_id":1,"source":"user","message":"do"}`
	agentOpen = head + `"steps":[` + userStep + `,{"step_id":2,"source":"agent","message":"",`
	end       = `}]}`
	subagent  = `{"trajectory_id":%q,"agent":{"name":"s","version":"1"},"steps":[` + userStep + `]}`
)

func agentDoc(keys string) string { return agentOpen + keys + end }

func userDoc(keys string) string {
	return head + `"steps":[{"step_id":1,"source":"user","message":"do",` + keys + end
}

func partDoc(parts string) string {
	return head + `"steps":[{"step_id":1,"source":"user","message":[` + parts + `]` + end
}

func rootDoc(keys string) string { return head + `"steps":[` + userStep + `],` + keys + `}` }

func corpus() []doc {
	call := `"tool_calls":[{"tool_call_id":"c","function_name":"f","arguments":{}}]`
	step1, step2 := "$.steps[0]", "$.steps[1]"
	return slices.Concat([]doc{
		{"smallest", "", "", head + `"steps":[` + userStep + `]}`},
		{"no schema version", "", "", `{"agent":{"name":"","version":""},"steps":[` + userStep + `]}`},
		{"empty message parts", "", "", partDoc(``)},
		{"all parts", "", "", partDoc(`{"type":"text","text":""},{"type":"image","source":{"media_type":"image/png","path":"https://x/y.png"}},{"type":"audio","source":{"media_type":" Audio/MP3 ","path":"s3://b/k","duration_sec":0}}`)},
		{"everything on an agent step", "", "", agentDoc(`"timestamp":"2026-01-02T03:04:05Z","model_name":"m","reasoning_effort":"high","reasoning_content":"r",` + call + `,"observation":{"results":[{"source_call_id":"c","content":"x"},{"content":[{"type":"text","text":"y"}],"subagent_trajectory_ref":[{"trajectory_path":"p"}],"extra":{}},{}]},"metrics":{"prompt_tokens":1,"completion_tokens":2,"cached_tokens":0,"cost_usd":0.1,"prompt_token_ids":[1],"completion_token_ids":[],"logprobs":[-0.5,0],"extra":{"a":null}},"is_copied_context":false,"llm_call_count":2,"extra":{"deep":[{"a":1}]}`)},
		{"numeric effort", "", "", agentDoc(`"reasoning_effort":0.5`)},
		{"nulls for all optional keys", "", "", userDoc(`"timestamp":null,"model_name":null,"reasoning_effort":null,"reasoning_content":null,"tool_calls":null,"observation":null,"metrics":null,"is_copied_context":null,"llm_call_count":null,"extra":null`)},
		{"observation of a user step", "", "", userDoc(`"observation":{"results":[]}`)},
		{"duplicate call ids", "", "", agentDoc(`"tool_calls":[{"tool_call_id":"c","function_name":"f","arguments":{}},{"tool_call_id":"c","function_name":"g","arguments":{"x":1}}]`)},
		{"no model was asked", "", "", agentDoc(`"llm_call_count":0`)},
		{"zero calls on a user step", "", "", userDoc(`"llm_call_count":0`)},
		{"whole root", "", "", rootDoc(`"session_id":"s","trajectory_id":"t","notes":"n","final_metrics":{"total_prompt_tokens":1,"total_completion_tokens":1,"total_cached_tokens":1,"total_cost_usd":1,"total_steps":0,"extra":{}},"continued_trajectory_ref":"next.json","extra":{},"subagent_trajectories":[` + fmt.Sprintf(subagent, "a") + `,` + fmt.Sprintf(subagent, "b") + `]`)},
		{"numbers in words", "", "", agentDoc(`"llm_call_count":" 1_0.0 ","is_copied_context":"Yes","metrics":{"prompt_tokens":"7","cost_usd":"1e-3","cached_tokens":true,"completion_tokens":5.0}`)},
		{"step id as text", "", "", head + `"steps":[{"step_id":"1","source":"user","message":""` + end},
		{"huge token count", "", "", agentDoc(`"metrics":{"prompt_tokens":100000000000000000000}`)},
		{"negative metrics are not refused", "", "", agentDoc(`"metrics":{"prompt_tokens":-1,"cost_usd":-1}`)},
		{"null extra values", "", "", rootDoc(`"extra":{"x":null}`)},
		{"reference to nobody's trajectory", "", "", userDoc(`"observation":{"results":[{"subagent_trajectory_ref":[{"trajectory_id":"nobody"}]}]}`)},
		{"tools", "", "", `{"agent":{"name":"a","version":"1","model_name":"m","tool_definitions":[{"type":"function"}],"extra":{}},"steps":[` + userStep + `]}`},

		{"a list", RuleJSON, "$", `[]`},
		{"a string", RuleJSON, "$", `"x"`},
		{"null", RuleJSON, "$", `null`},
		{"not JSON", RuleJSON, "$", `{"agent":`},
		{"two values", RuleJSON, "$", `{}{}`},
		{"no agent", RuleMissing, "$.agent", `{"steps":[` + userStep + `]}`},
		{"null agent", RuleType, "$.agent", `{"agent":null,"steps":[` + userStep + `]}`},
		{"agent without name", RuleMissing, "$.agent.name", `{"agent":{"version":"1"},"steps":[` + userStep + `]}`},
		{"agent without version", RuleMissing, "$.agent.version", `{"agent":{"name":"a"},"steps":[` + userStep + `]}`},
		{"agent with a number for a name", RuleType, "$.agent.name", `{"agent":{"name":1,"version":"1"},"steps":[` + userStep + `]}`},
		{"agent of text", RuleType, "$.agent", `{"agent":"a","steps":[` + userStep + `]}`},
		{"tool definition of text", RuleType, "$.agent.tool_definitions[0]", `{"agent":{"name":"a","version":"1","tool_definitions":["bash"]},"steps":[` + userStep + `]}`},
		{"no steps key", RuleMissing, "$.steps", head + `"notes":"n"}`},
		{"steps are an object", RuleType, "$.steps", head + `"steps":{}}`},
		{"no step", RuleNoSteps, "$.steps", head + `"steps":[]}`},
		{"null step", RuleType, "$.steps[0]", head + `"steps":[null]}`},
		{"version 1.9", RuleVersion, "$.schema_version", `{"schema_version":"ATIF-v1.9","agent":{"name":"a","version":"1"},"steps":[` + userStep + `]}`},
		{"version null", RuleType, "$.schema_version", `{"schema_version":null,"agent":{"name":"a","version":"1"},"steps":[` + userStep + `]}`},
		{"version in lower case", RuleVersion, "$.schema_version", `{"schema_version":"atif-v1.8","agent":{"name":"a","version":"1"},"steps":[` + userStep + `]}`},
		{"null notes in a list", RuleType, "$.notes", rootDoc(`"notes":[]`)},
		{"negative total", RuleNegative, "$.final_metrics.total_steps", rootDoc(`"final_metrics":{"total_steps":-1}`)},
		{"total in parts", RuleType, "$.final_metrics.total_prompt_tokens", rootDoc(`"final_metrics":{"total_prompt_tokens":1.5}`)},

		{"step without id", RuleMissing, step1 + ".step_id", head + `"steps":[{"source":"user","message":""}]}`},
		{"step id 0", RuleStepID, step1 + ".step_id", head + `"steps":[{"step_id":0,"source":"user","message":""}]}`},
		{"step ids with a gap", RuleStepID, step2 + ".step_id", head + `"steps":[` + userStep + `,{"step_id":3,"source":"user","message":""}]}`},
		{"step id twice", RuleStepID, step2 + ".step_id", head + `"steps":[` + userStep + `,` + userStep + `]}`},
		{"step id of a half", RuleType, step1 + ".step_id", head + `"steps":[{"step_id":1.5,"source":"user","message":""}]}`},
		{"step without source", RuleMissing, step1 + ".source", head + `"steps":[{"step_id":1,"message":""}]}`},
		{"source tool", RuleSource, step1 + ".source", head + `"steps":[{"step_id":1,"source":"tool","message":""}]}`},
		{"source null", RuleType, step1 + ".source", head + `"steps":[{"step_id":1,"source":null,"message":""}]}`},
		{"step without message", RuleMissing, step1 + ".message", head + `"steps":[{"step_id":1,"source":"user"}]}`},
		{"message null", RuleType, step1 + ".message", head + `"steps":[{"step_id":1,"source":"user","message":null}]}`},
		{"message of an object", RuleType, step1 + ".message", head + `"steps":[{"step_id":1,"source":"user","message":{}}]}`},
		{"timestamp in words", RuleTimestamp, step1 + ".timestamp", userDoc(`"timestamp":"yesterday"`)},
		{"timestamp empty", RuleTimestamp, step1 + ".timestamp", userDoc(`"timestamp":""`)},
		{"timestamp of 61 minutes", RuleTimestamp, step1 + ".timestamp", userDoc(`"timestamp":"2026-01-02T03:61:00"`)},
		{"timestamp of a number", RuleType, step1 + ".timestamp", userDoc(`"timestamp":1767322800`)},
		{"copied context of text", RuleType, step1 + ".is_copied_context", userDoc(`"is_copied_context":"maybe"`)},
		{"negative calls", RuleNegative, step1 + ".llm_call_count", userDoc(`"llm_call_count":-1`)},
		{"effort of a list", RuleType, step2 + ".reasoning_effort", agentDoc(`"reasoning_effort":[]`)},
		{"extra of text", RuleType, step1 + ".extra", userDoc(`"extra":"x"`)},
		{"metrics with zero calls", RuleNoModel, step2 + ".metrics", agentDoc(`"llm_call_count":0,"metrics":{}`)},
		{"reasoning with zero calls", RuleNoModel, step2 + ".reasoning_content", agentDoc(`"llm_call_count":"0","reasoning_content":""`)},

		{"call without id", RuleMissing, step2 + ".tool_calls[0].tool_call_id", agentDoc(`"tool_calls":[{"function_name":"f","arguments":{}}]`)},
		{"call without function", RuleMissing, step2 + ".tool_calls[0].function_name", agentDoc(`"tool_calls":[{"tool_call_id":"c","arguments":{}}]`)},
		{"call without arguments", RuleMissing, step2 + ".tool_calls[0].arguments", agentDoc(`"tool_calls":[{"tool_call_id":"c","function_name":"f"}]`)},
		{"arguments in a string", RuleType, step2 + ".tool_calls[0].arguments", agentDoc(`"tool_calls":[{"tool_call_id":"c","function_name":"f","arguments":"{}"}]`)},
		{"observation without results", RuleMissing, step1 + ".observation.results", userDoc(`"observation":{}`)},
		{"results null", RuleType, step1 + ".observation.results", userDoc(`"observation":{"results":null}`)},
		{"answer to no call", RuleCallReference, step2 + ".observation.results[0].source_call_id", agentDoc(call + `,"observation":{"results":[{"source_call_id":"d"}]}`)},
		{"answer to an earlier step's call", RuleCallReference, "$.steps[2].observation.results[0].source_call_id", agentOpen + call + `},{"step_id":3,"source":"agent","message":"","observation":{"results":[{"source_call_id":"c"}]}` + end},
		{"answer on a user step", RuleCallReference, step1 + ".observation.results[0].source_call_id", userDoc(`"observation":{"results":[{"source_call_id":""}]}`)},
		{"content of a number", RuleType, step1 + ".observation.results[0].content", userDoc(`"observation":{"results":[{"content":1}]}`)},
		{"reference by session alone", RuleSubagentRef, step1 + ".observation.results[0].subagent_trajectory_ref[0]", userDoc(`"observation":{"results":[{"subagent_trajectory_ref":[{"session_id":"s"}]}]}`)},
		{"reference not in a list", RuleType, step1 + ".observation.results[0].subagent_trajectory_ref", userDoc(`"observation":{"results":[{"subagent_trajectory_ref":{"trajectory_id":"x"}}]}`)},
		{"embedded without id", RuleSubagentID, "$.subagent_trajectories[0].trajectory_id", rootDoc(`"subagent_trajectories":[{"agent":{"name":"s","version":"1"},"steps":[` + userStep + `]}]`)},
		{"embedded twice", RuleSubagentTwice, "$.subagent_trajectories[1].trajectory_id", rootDoc(`"subagent_trajectories":[` + fmt.Sprintf(subagent, "a") + `,` + fmt.Sprintf(subagent, "a") + `]`)},
		{"embedded and broken", RuleNoSteps, "$.subagent_trajectories[0].steps", rootDoc(`"subagent_trajectories":[{"trajectory_id":"x","agent":{"name":"s","version":"1"},"steps":[]}]`)},
		{"token ids of text", RuleType, step2 + ".metrics.prompt_token_ids[1]", agentDoc(`"metrics":{"prompt_token_ids":[1,"x"]}`)},
		{"logprob null", RuleType, step2 + ".metrics.logprobs[0]", agentDoc(`"metrics":{"logprobs":[null]}`)},
		{"cost in words", RuleType, step2 + ".metrics.cost_usd", agentDoc(`"metrics":{"cost_usd":"free"}`)},

		{"part of a video", RulePartType, step1 + ".message[0].type", partDoc(`{"type":"video"}`)},
		{"part without type", RuleMissing, step1 + ".message[0].type", partDoc(`{"text":"x"}`)},
		{"part of text alone", RuleType, step1 + ".message[0]", partDoc(`"x"`)},
		{"text part without text", RulePartText, step1 + ".message[0].text", partDoc(`{"type":"text"}`)},
		{"text part with source", RulePartSource, step1 + ".message[0].source", partDoc(`{"type":"text","text":"x","source":{"media_type":"image/png","path":"p"}}`)},
		{"image part without source", RulePartSource, step1 + ".message[0].source", partDoc(`{"type":"image"}`)},
		{"audio part with text", RulePartText, step1 + ".message[0].text", partDoc(`{"type":"audio","text":"x","source":{"media_type":"audio/wav","path":"s://p"}}`)},
		{"image of svg", RuleMediaType, step1 + ".message[0].source.media_type", partDoc(`{"type":"image","source":{"media_type":"image/svg+xml","path":"s://p"}}`)},
		{"image type in capitals", RuleMediaType, step1 + ".message[0].source.media_type", partDoc(`{"type":"image","source":{"media_type":"IMAGE/PNG","path":"s://p"}}`)},
		{"image with an audio source", RuleMediaMismatch, step1 + ".message[0].source.media_type", partDoc(`{"type":"image","source":{"media_type":"audio/wav","path":"s://p"}}`)},
		{"audio with an image source", RuleMediaMismatch, step1 + ".message[0].source.media_type", partDoc(`{"type":"audio","source":{"media_type":"image/gif","path":"s://p"}}`)},
		{"image with a duration", RuleUnknown, step1 + ".message[0].source.duration_sec", partDoc(`{"type":"image","source":{"media_type":"image/png","path":"s://p","duration_sec":1}}`)},
		{"negative duration", RuleNegative, step1 + ".message[0].source.duration_sec", partDoc(`{"type":"audio","source":{"media_type":"audio/wav","path":"s://p","duration_sec":-0.1}}`)},
		{"source without path", RuleMissing, step1 + ".message[0].source.path", partDoc(`{"type":"image","source":{"media_type":"image/png"}}`)},
		{"image that is not there", RuleMediaFile, step1 + ".message[1].source.path", partDoc(`{"type":"image","source":{"media_type":"image/png","path":"here.png"}},{"type":"image","source":{"media_type":"image/png","path":"images/none.png"}}`)},
		{"audio that is not there", RuleMediaFile, step1 + ".observation.results[0].content[0].source.path", userDoc(`"observation":{"results":[{"content":[{"type":"audio","source":{"media_type":"audio/wav","path":"/no/such.wav"}}]}]}`)},
	}, versions(), unknownKeys(), agentOnly())
}

// versions has a valid document of every version.
func versions() (all []doc) {
	for _, v := range Versions() {
		all = append(all, doc{"version " + v, "", "", `{"schema_version":"` + v + `","agent":{"name":"a","version":"1"},"steps":[` + userStep + `]}`})
	}
	return all
}

// unknownKeys has an unknown key in every object of the format.
func unknownKeys() (all []doc) {
	for path, text := range map[string]string{
		"$":                                 rootDoc(`"x":1`),
		"$.agent":                           `{"agent":{"name":"a","version":"1","x":1},"steps":[` + userStep + `]}`,
		"$.final_metrics":                   rootDoc(`"final_metrics":{"x":1}`),
		"$.steps[0]":                        userDoc(`"x":null`),
		"$.steps[1].metrics":                agentDoc(`"metrics":{"x":1}`),
		"$.steps[1].tool_calls[0]":          agentDoc(`"tool_calls":[{"tool_call_id":"c","function_name":"f","arguments":{},"x":1}]`),
		"$.steps[0].observation":            userDoc(`"observation":{"results":[],"x":1}`),
		"$.steps[0].message[0]":             partDoc(`{"type":"text","text":"x","x":1}`),
		"$.steps[0].message[0].source":      partDoc(`{"type":"audio","source":{"media_type":"audio/wav","path":"s://p","x":1}}`),
		"$.subagent_trajectories[0]":        rootDoc(`"subagent_trajectories":[{"x":1,` + fmt.Sprintf(subagent, "a")[1:] + `]`),
		"$.steps[0].observation.results[0]": userDoc(`"observation":{"results":[{"x":1}]}`),
		"$.steps[0].observation.results[0].subagent_trajectory_ref[0]": userDoc(`"observation":{"results":[{"subagent_trajectory_ref":[{"trajectory_id":"a","x":1}]}]}`),
	} {
		all = append(all, doc{"unknown key in " + path, RuleUnknown, path + ".x", text})
	}
	return all
}

// agentOnly has each key that only agent steps may have on a user's step.
func agentOnly() (all []doc) {
	for name, value := range map[string]string{"model_name": `""`, "reasoning_effort": `0`, "reasoning_content": `""`, "tool_calls": `[]`, "metrics": `{}`} {
		all = append(all, doc{"user step with " + name, RuleAgentOnly, "$.steps[0]." + name, userDoc(`"` + name + `":` + value)})
	}
	return all
}

// corpusDir writes the corpus as files, with the one image that is there.
func corpusDir(t testing.TB, all []doc) string {
	t.Helper()
	dir := t.TempDir()
	for i, d := range all {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.json", i)), []byte(d.json), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "here.png"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Every document of the corpus breaks exactly the rule it is made for, and
// every rule has one.
func TestCorpus(t *testing.T) {
	all := corpus()
	dir := corpusDir(t, all)
	tried := map[Rule]bool{RuleDeep: true} // see TestDeeplyEmbedded
	for i, d := range all {
		found, err := ValidateFile(filepath.Join(dir, fmt.Sprintf("%03d.json", i)))
		if err != nil {
			t.Fatal(err)
		}
		tried[d.rule] = true
		switch {
		case d.rule == "" && len(found) > 0:
			t.Errorf("%s: %v", d.name, found)
		case d.rule != "" && (len(found) != 1 || found[0].Rule != d.rule || found[0].Path != d.path || found[0].Text == ""):
			t.Errorf("%s: %v, want %s at %s", d.name, found, d.rule, d.path)
		}
	}
	for _, r := range Rules() {
		if !tried[r] {
			t.Errorf("rule %s has no document", r)
		}
	}
	if len(all) < 100 {
		t.Errorf("%d documents", len(all))
	}
}

// Not only the first breach is told.
func TestAllFindingsAreTold(t *testing.T) {
	found := Validate([]byte(`{"agent":{"name":1,"x":0},"steps":[{"step_id":2,"source":"user","message":"","metrics":{"cost_usd":"free"}},7],"subagent_trajectories":[{}]}`))
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprintf("%s %s", f.Path, f.Rule))
	}
	want := []string{
		"$.agent.name type", "$.agent.version missing", "$.agent.x unknown-key",
		"$.steps[0].metrics.cost_usd type", "$.steps[0].metrics agent-only", "$.steps[1] type",
		"$.subagent_trajectories[0].agent missing", "$.subagent_trajectories[0].steps missing",
		"$.steps[0].step_id step-id", "$.subagent_trajectories[0].trajectory_id subagent-id",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if s := found[0].String(); s != "$.agent.name: must be a string, not a number (type)" {
		t.Errorf("%q", s)
	}
}

func TestDeeplyEmbedded(t *testing.T) {
	n := maxDepth + 2
	text := strings.Repeat(`{"trajectory_id":"x","agent":{"name":"s","version":"1"},"steps":[`+userStep+`],"subagent_trajectories":[`, n) + strings.Repeat(`]}`, n)
	found := Validate([]byte(text))
	if len(found) != 1 || found[0].Rule != RuleDeep {
		t.Errorf("%v", found)
	}
	parsed, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	depth := 0
	for at := parsed; ; depth++ {
		if len(at.Subagents) == 0 {
			if at.Unknown["subagent_trajectories"] == nil {
				t.Error("what is too deep was lost")
			}
			break
		}
		at = &at.Subagents[0]
	}
	if depth != maxEmbedding {
		t.Errorf("read %d levels", depth)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	text := rootDoc(`"subagent_trajectories":[` + strings.TrimSuffix(strings.Repeat("1,", 5000), ",") + `]`)
	if n := len(Validate([]byte(text))); n != maxFindings {
		t.Errorf("%d findings", n)
	}
}

func TestValidateFileErrors(t *testing.T) {
	if _, err := ValidateFile(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("validated a file that is not there")
	}
	big := filepath.Join(t.TempDir(), "big.json")
	if err := os.WriteFile(big, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, MaxSize+1); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	if _, err := ValidateFile(big); err == nil || !strings.Contains(err.Error(), "larger than 128 MiB") {
		t.Errorf("%v", err)
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// scalars are JSON values at the edges of the reference's lax reading.
func scalars() []string {
	all := []string{"0", "1", "-1", "1.0", "1.5", "-0.0", "1e2", "1e18", "1e19", "1e300", "1e999", "100000000000000000000000", "true", "false", "[]", "{}",
		"1" + strings.Repeat("0", 400), "-9223372036854775808", "0.1e1", "15e-1"}
	for _, s := range []string{"", "1", " 1 ", "\t1\n", "1.0", "1.", ".5", "1.00", "1.5", "1_0", "1__0", "_1", "1_", "+5", "-5", "-0", "--1", "01", "0x1", "1e2",
		"nan", "inf", "-Infinity", "NaN", "infinity", "1e999", "1,5", "1 0", "９", "true", "TRUE", "t", "yes", "Y", "on", "0", "off", "no", "N", " true ", "2", "1_0.5", "1_e5", "free", "-1", "-0.5"} {
		all = append(all, quote(s))
	}
	return all
}

// times are texts at the edges of what the reference takes for a time.
func times() []string {
	return []string{
		"2026-01-01", "20260101", "2026-W01", "2026-W01-1", "2026W011", "2026W01", "2026-01-01T00", "2026-01-01T0000", "2026-01-01T00:00", "2026-01-01 00:00:00",
		"2026-01-01x00:00:00", "2026-01-01T00:00:00.1", "2026-01-01T00:00:00,123456789", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00+05", "2026-01-01T00:00:00+0530",
		"2026-01-01T00:00:00+05:30:10", "2026-01-01T00:00:00+05:30:10.5", "2026-01-01T24:00:00", "2026-02-29", "2024-02-29", "2026-02-30", "2026-13-01", "2026-00-10", "2026-01-00",
		"2026-01-01T", "2026-1-1", "2026-01-01T00:00:60", "2026-01-01T00:60:00", "Z2026", "2026-01-01T00:00:00.", "2026-01-01T00:00:00+24:00", "2026-01-01T000000.5",
		"2026-01-01T00:0000", "2026-01-0100:00", "20260101T000000", "20260101000000", "2026-001", "2026-W53-1", "2026-W54-1", "2025-W53-1", "0000-01-01", "0001-01-01",
		"2026-01-01T00:00:00-00:00", "2026-01-01T00:00:00+00:00Z", "2026-01-01é00:00:00", "2026-01-01T00:00:00.12345678901", "2026-01-01T00+05", "2026-W011", "2026W01-1",
		"2026-01-01T00:00:00+", "2026-01-01T00:00:00.1+05:3", "2026-01-01T00:00:00+5", "2026-W00-1", "2026-W01-8", "2026-W01-0", "9999-W52-7", "2026-01-01T0", "2026-01-01T00:",
		"2026-01-01+00:00", "2026-01-01T00:00:00+00:00+00:00", "20260101 00", "２０２６-01-01", "2026-01-01T00:00+23:59:59.999999", "2026-01-01T00Z00", "2026-01-01T1:00:00",
		"2026", "2026-01", "yesterday", " 2026-01-01", "2026-01-01 ", "2026-01-01T00:00:00Zjunk", "2026-W01T00:00", "2026-01-01T00:00:00.1234567Z", "1767322800", "2026-01-01T00:00:00z",
	}
}
