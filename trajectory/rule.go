package trajectory

import "fmt"

// Rule names one rule of the format.
type Rule string

const (
	RuleJSON          Rule = "json"            // not a JSON object, or not JSON at all
	RuleMissing       Rule = "missing"         // a required key is not there
	RuleUnknown       Rule = "unknown-key"     // every object forbids keys it does not know
	RuleType          Rule = "type"            // a value of the wrong type; null where none is allowed
	RuleVersion       Rule = "schema-version"  // not one of ATIF-v1.0 … v1.8
	RuleSource        Rule = "source"          // not system, user or agent
	RuleNegative      Rule = "negative"        // a count or duration below zero
	RuleNoSteps       Rule = "no-steps"        // at least one step
	RuleStepID        Rule = "step-id"         // 1, 2, 3, … without gaps
	RuleTimestamp     Rule = "timestamp"       // not ISO 8601
	RuleAgentOnly     Rule = "agent-only"      // a key that only agent steps may have
	RuleNoModel       Rule = "no-model"        // llm_call_count 0 bars metrics and reasoning_content
	RuleCallReference Rule = "call-reference"  // source_call_id names no call of the same step
	RuleSubagentRef   Rule = "subagent-ref"    // neither trajectory_id nor trajectory_path
	RuleSubagentID    Rule = "subagent-id"     // an embedded document without trajectory_id
	RuleSubagentTwice Rule = "subagent-twice"  // two embedded documents with one trajectory_id
	RulePartType      Rule = "part-type"       // not text, image or audio
	RulePartText      Rule = "part-text"       // a text part without text, or a media part with
	RulePartSource    Rule = "part-source"     // a media part without source, or a text part with
	RuleMediaType     Rule = "media-type"      // a media type the format does not list
	RuleMediaMismatch Rule = "media-mismatch"  // an image part with an audio source, or the reverse
	RuleMediaFile     Rule = "media-file"      // a local image or audio file that is not there
	RuleDeep          Rule = "nested-too-deep" // assay's own bound
)

// Rules lists every rule, in the order of the constants.
func Rules() []Rule {
	return []Rule{RuleJSON, RuleMissing, RuleUnknown, RuleType, RuleVersion, RuleSource, RuleNegative, RuleNoSteps, RuleStepID,
		RuleTimestamp, RuleAgentOnly, RuleNoModel, RuleCallReference, RuleSubagentRef, RuleSubagentID, RuleSubagentTwice,
		RulePartType, RulePartText, RulePartSource, RuleMediaType, RuleMediaMismatch, RuleMediaFile, RuleDeep}
}

// Finding is one breach of one rule.
type Finding struct {
	Path string `json:"path"` // JSON path: $.steps[2].tool_calls[0].arguments
	Rule Rule   `json:"rule"`
	Text string `json:"text"` // what is wrong, for people
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s (%s)", f.Path, f.Text, f.Rule) }
