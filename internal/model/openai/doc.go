// Package openai reads and writes the two wire formats of OpenAI's servers and
// of all that imitate them: [Chat] completions and [Responses]. It knows what
// vLLM, DeepSeek and others add to chat (reasoning, token ids), takes what old
// clients still send (functions), and never sends anything itself.
//
// Source: the type definitions of the official SDKs, openai 6.49 (npm) and
// 3.54 (PyPI).
package openai
