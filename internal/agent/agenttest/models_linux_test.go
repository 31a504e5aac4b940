package agenttest

import (
	"context"
	"fmt"
	"testing"

	"assay/internal/agent"
	"assay/internal/agent/builtin"
	"assay/internal/model"
	"assay/task"
)

// player is a model that answers by how often it was asked in a conversation.
type player []model.Part

func (p player) Complete(ctx context.Context, q model.Request) (model.Response, error) {
	if ctx.Err() != nil {
		return model.Response{}, context.Cause(ctx)
	}
	n := 0
	for _, m := range q.Messages {
		if m.Role == model.RoleAssistant {
			n++
		}
	}
	part := p[min(n, len(p)-1)]
	return model.Response{Message: model.Message{Role: model.RoleAssistant, Parts: []model.Part{part}}, Stop: model.StopEnd}, nil
}

func (p player) connect(agent.Endpoint) (builtin.Completer, error) { return p, nil }

func call(tool, argument, value string) model.Part {
	return model.Part{Kind: model.PartCall, Call: &model.Call{ID: "c", Name: tool, Arguments: fmt.Sprintf("{%q: %q}", argument, value)}}
}

func TestReact(t *testing.T) {
	sh := func(s string) *Case {
		st, err := builtin.ParseStrategy("", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := builtin.NewReact(st, player{call("bash", "command", s), call("submit", "check", "test -s /project/out")}.connect)
		if err != nil {
			t.Fatal(err)
		}
		return &Case{Agent: a, Model: &agent.Endpoint{Model: "tiny"}}
	}
	Run(t, Suite{Open: openNS(t), Asks: true, Works: *sh(works), Hangs: sh(hangs)})
}

func TestOneshot(t *testing.T) {
	a := builtin.NewOneshot(player{{Kind: model.PartText, Text: "```\nworked\n```"}}.connect)
	b := &task.Brief{Task: "org/name", Instruction: "Write `/project/out.txt`.", Workdir: "/project", Answer: []string{"/project/out"}}
	Run(t, Suite{Open: openNS(t), Asks: true, Brief: b, Works: Case{Agent: a, Model: &agent.Endpoint{Model: "tiny"}}})
}
