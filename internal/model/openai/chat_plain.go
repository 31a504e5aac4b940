package openai

import (
	"encoding/json"

	"assay/internal/model"
)

// plainChunk is a chunk that adds text or reasoning and nothing else: nearly
// all chunks of nearly all streams. It is read at a fraction of the cost.
type plainChunk struct {
	Choices []struct {
		Index int64 `json:"index"`
		Delta *struct {
			Content      *string         `json:"content"`
			Thought      *string         `json:"reasoning_content"`
			Reasoning    *string         `json:"reasoning"`
			Refusal      json.RawMessage `json:"refusal"`
			ToolCalls    json.RawMessage `json:"tool_calls"`
			FunctionCall json.RawMessage `json:"function_call"`
		} `json:"delta"`
		FinishReason json.RawMessage `json:"finish_reason"`
		Logprobs     json.RawMessage `json:"logprobs"`
		TokenIDs     json.RawMessage `json:"token_ids"`
	} `json:"choices"`
	Error  json.RawMessage `json:"error"`
	Usage  json.RawMessage `json:"usage"`
	Prompt json.RawMessage `json:"prompt_token_ids"`
}

// plain reads a chunk of that kind; not ok: it is another.
func (d *chatDecoder) plain(data []byte) (deltas []model.Delta, ok bool) {
	var c plainChunk
	if !d.started || json.Unmarshal(data, &c) != nil || len(c.Choices) != 1 {
		return nil, false
	}
	one := c.Choices[0]
	if one.Index != 0 || one.Delta == nil {
		return nil, false
	}
	m := one.Delta
	for _, raw := range []json.RawMessage{
		c.Error, c.Usage, c.Prompt, one.FinishReason, one.Logprobs, one.TokenIDs, m.Refusal, m.ToolCalls, m.FunctionCall,
	} {
		if raw != nil && string(raw) != "null" {
			return nil, false
		}
	}
	if m.Thought == nil || *m.Thought == "" {
		m.Thought = m.Reasoning
	}
	if m.Thought != nil && *m.Thought != "" {
		deltas = append(deltas, model.Delta{Kind: model.DeltaReasoning, Index: d.part("reasoning"), Text: *m.Thought})
	}
	if m.Content != nil && *m.Content != "" {
		deltas = append(deltas, model.Delta{Kind: model.DeltaText, Index: d.part("content"), Text: *m.Content})
	}
	return deltas, true
}
