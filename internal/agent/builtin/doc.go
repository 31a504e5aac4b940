// Package builtin holds the agents that come with assay, so that a model can be
// measured without anybody else's program:
//
//   - [React] thinks, acts and observes until it submits. Read react.go first:
//     it is the whole loop. What it may do stands in tools.go, what it says in
//     prompts/, and what distinguishes one react from another in strategies/.
//   - [Oneshot] asks once and writes down the answer.
//
// Both run on the host and reach the model through a [Completer]; only what
// their tools do happens in the sandbox, as the task's user. They keep no
// record of their own beside a transcript for people: the gateway records every
// call, as it does for any other agent. They never retry a model's failures
// (the Completer does) and never look at a task's tests.
package builtin

import (
	"context"

	"assay/internal/agent"
	"assay/internal/model"
)

// Completer is the model as these agents see it.
type Completer interface {
	// Complete asks once. What the provider says against it is a *model.Error.
	Complete(ctx context.Context, r model.Request) (model.Response, error)
}

// Connect makes the way to a session's model. It is called once a run.
type Connect func(e agent.Endpoint) (Completer, error)

// Dialects are what these agents speak: any, since a [Completer] does.
const Dialects = "chat,messages,responses,gemini"
