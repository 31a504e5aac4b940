package trajectory

import (
	"fmt"
	"slices"
)

// This file is the format's schema, object by object, in the reference's order
// of keys. Rules that look at several keys follow each object.

func (c *checker) trajectory(path string, v any, depth int) {
	if depth > maxDepth {
		c.add(path, RuleDeep, "documents are embedded deeper than %d levels", maxDepth)
		return
	}
	doc, _ := v.(map[string]any)
	_, versioned := doc["schema_version"]
	o, ok := c.object(path, v, []key{
		{"schema_version", versioned, version}, // may be absent, not null
		{"session_id", false, text},
		{"trajectory_id", false, text},
		{"agent", true, agent},
		{"steps", true, list(step)},
		{"notes", false, text},
		{"final_metrics", false, finalMetrics},
		{"continued_trajectory_ref", false, text},
		{"extra", false, anyObject},
		{"subagent_trajectories", false, list(func(c *checker, path string, v any) { c.trajectory(path, v, depth+1) })},
	})
	if !ok {
		return
	}
	if steps, ok := o["steps"].([]any); ok {
		c.stepOrder(path, steps)
	}
	c.embeddedIDs(path, o["subagent_trajectories"])
}

func version(c *checker, path string, v any) {
	if s, ok := v.(string); !ok || !slices.Contains(Versions(), s) {
		c.add(path, RuleVersion, "must be one of ATIF-v1.0 to %s", Version)
	}
}

func (c *checker) stepOrder(path string, steps []any) {
	if len(steps) == 0 {
		c.add(path+".steps", RuleNoSteps, "a trajectory has at least one step")
	}
	for i, s := range steps {
		o, _ := s.(map[string]any)
		if id, ok := laxInt(o["step_id"]); ok && id != int64(i+1) {
			c.add(fmt.Sprintf("%s.steps[%d].step_id", path, i), RuleStepID, "must be %d: steps are numbered from 1 without gaps", i+1)
		}
	}
}

func (c *checker) embeddedIDs(path string, v any) {
	all, _ := v.([]any)
	seen := map[string]bool{}
	for i, s := range all {
		o, ok := s.(map[string]any)
		if !ok {
			continue
		}
		at := fmt.Sprintf("%s.subagent_trajectories[%d].trajectory_id", path, i)
		id, ok := o["trajectory_id"].(string)
		switch {
		case o["trajectory_id"] == nil:
			c.add(at, RuleSubagentID, "an embedded document needs one")
		case ok && seen[id]:
			c.add(at, RuleSubagentTwice, "%q is not unique among the embedded documents", id)
		}
		seen[id] = ok
	}
}

func agent(c *checker, path string, v any) {
	c.object(path, v, []key{
		{"name", true, text},
		{"version", true, text},
		{"model_name", false, text},
		{"tool_definitions", false, list(anyObject)},
		{"extra", false, anyObject},
	})
}

func step(c *checker, path string, v any) {
	o, ok := c.object(path, v, []key{
		{"step_id", true, integer},
		{"timestamp", false, timestamp},
		{"source", true, oneOf(RuleSource, string(System), string(User), string(Agents))},
		{"model_name", false, text},
		{"reasoning_effort", false, textOrNumber},
		{"message", true, content},
		{"reasoning_content", false, text},
		{"tool_calls", false, list(toolCall)},
		{"observation", false, observation},
		{"metrics", false, metrics},
		{"is_copied_context", false, boolean},
		{"llm_call_count", false, count},
		{"extra", false, anyObject},
	})
	if !ok {
		return
	}
	if s := o["source"]; s == string(System) || s == string(User) {
		for _, name := range []string{"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"} {
			if o[name] != nil {
				c.add(path+"."+name, RuleAgentOnly, "only a step of source agent may have it, this one is of source %s", s)
			}
		}
	}
	if n, ok := laxInt(o["llm_call_count"]); ok && n == 0 && o["source"] == string(Agents) {
		for _, name := range []string{"metrics", "reasoning_content"} {
			if o[name] != nil {
				c.add(path+"."+name, RuleNoModel, "must be absent where llm_call_count is 0")
			}
		}
	}
	c.callReferences(path, o)
}

func (c *checker) callReferences(path string, step map[string]any) {
	ids := map[string]bool{}
	calls, _ := step["tool_calls"].([]any)
	for _, v := range calls {
		call, _ := v.(map[string]any)
		if id, ok := call["tool_call_id"].(string); ok {
			ids[id] = true
		}
	}
	observation, _ := step["observation"].(map[string]any)
	results, _ := observation["results"].([]any)
	for i, v := range results {
		result, _ := v.(map[string]any)
		if id, ok := result["source_call_id"].(string); ok && !ids[id] {
			c.add(fmt.Sprintf("%s.observation.results[%d].source_call_id", path, i), RuleCallReference, "%q is no tool call of this step", id)
		}
	}
}

func timestamp(c *checker, path string, v any) {
	s, ok := v.(string)
	if !ok {
		c.add(path, RuleType, "must be a string, not %s", kind(v))
	} else if !isoTime(s) {
		c.add(path, RuleTimestamp, "%q is not an ISO 8601 time", s)
	}
}

func toolCall(c *checker, path string, v any) {
	c.object(path, v, []key{
		{"tool_call_id", true, text},
		{"function_name", true, text},
		{"arguments", true, anyObject},
		{"extra", false, anyObject},
	})
}

func observation(c *checker, path string, v any) {
	c.object(path, v, []key{{"results", true, list(observationResult)}})
}

func observationResult(c *checker, path string, v any) {
	c.object(path, v, []key{
		{"source_call_id", false, text},
		{"content", false, content},
		{"subagent_trajectory_ref", false, list(subagentRef)},
		{"extra", false, anyObject},
	})
}

func subagentRef(c *checker, path string, v any) {
	o, ok := c.object(path, v, []key{
		{"trajectory_id", false, text},
		{"session_id", false, text},
		{"trajectory_path", false, text},
		{"extra", false, anyObject},
	})
	if ok && o["trajectory_id"] == nil && o["trajectory_path"] == nil {
		c.add(path, RuleSubagentRef, "needs trajectory_id or trajectory_path; session_id alone finds nothing")
	}
}

func metrics(c *checker, path string, v any) {
	c.object(path, v, []key{
		{"prompt_tokens", false, integer},
		{"completion_tokens", false, integer},
		{"cached_tokens", false, integer},
		{"cost_usd", false, number},
		{"prompt_token_ids", false, list(integer)},
		{"completion_token_ids", false, list(integer)},
		{"logprobs", false, list(number)},
		{"extra", false, anyObject},
	})
}

func finalMetrics(c *checker, path string, v any) {
	c.object(path, v, []key{
		{"total_prompt_tokens", false, integer},
		{"total_completion_tokens", false, integer},
		{"total_cached_tokens", false, integer},
		{"total_cost_usd", false, number},
		{"total_steps", false, count},
		{"extra", false, anyObject},
	})
}

func content(c *checker, path string, v any) {
	switch v.(type) {
	case string:
	case []any:
		list(part)(c, path, v)
	default:
		c.add(path, RuleType, "must be a string or a list of parts, not %s", kind(v))
	}
}

func part(c *checker, path string, v any) {
	o, ok := c.object(path, v, []key{
		{"type", true, oneOf(RulePartType, string(PartText), string(PartImage), string(PartAudio))},
		{"text", false, text},
		{"source", false, media},
	})
	if !ok {
		return
	}
	hasText, hasSource := o["text"] != nil, o["source"] != nil
	switch t := o["type"]; t {
	case string(PartText):
		if !hasText {
			c.add(path+".text", RulePartText, "a text part needs it")
		}
		if hasSource {
			c.add(path+".source", RulePartSource, "a text part has none")
		}
	case string(PartImage), string(PartAudio):
		if !hasSource {
			c.add(path+".source", RulePartSource, "an %s part needs one", t)
		}
		if hasText {
			c.add(path+".text", RulePartText, "an %s part has none", t)
		}
		if kind := mediaKind(o["source"]); kind != "" && string(kind) != t {
			c.add(path+".source.media_type", RuleMediaMismatch, "an %s part cannot have an %s source", t, kind)
		}
	}
}

// mediaKind says what a source is by its media type; empty when it is neither.
func mediaKind(v any) PartType {
	o, _ := v.(map[string]any)
	s, ok := o["media_type"].(string)
	switch {
	case !ok:
		return ""
	case slices.Contains(imageTypes(), s):
		return PartImage
	case slices.Contains(audioTypes(), CanonicalAudio(s)):
		return PartAudio
	}
	return ""
}

func media(c *checker, path string, v any) {
	keys := []key{
		{"media_type", true, func(c *checker, at string, _ any) {
			if mediaKind(v) == "" {
				c.add(at, RuleMediaType, "must be one of the format's image types %v or audio types %v", imageTypes(), audioTypes())
			}
		}},
		{"path", true, text},
	}
	if mediaKind(v) == PartAudio {
		keys = append(keys, key{"duration_sec", false, duration})
	}
	c.object(path, v, keys)
}

func duration(c *checker, path string, v any) {
	f, ok := laxFloat(v)
	switch {
	case !ok:
		c.add(path, RuleType, "must be a number, not %s", kind(v))
	case !(f >= 0): // a NaN is refused too
		c.add(path, RuleNegative, "must be 0 or more")
	}
}
