package toolserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"assay/internal/agent"
)

// Left is what an agent has left. Nil is no limit.
type Left struct {
	Time   *time.Duration
	Tokens *int64 // of the model, in and out together
	USD    *float64
}

// Clock is a tool that says what is left of the agent's time and budget.
func Clock(left func() Left) agent.Tool {
	return agent.Tool{
		Name:        "clock",
		Description: "Say how much time, how many tokens and how much money are left for this task.",
		Schema:      json.RawMessage(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`),
		Call: func(_ context.Context, a json.RawMessage) (string, error) {
			var none map[string]json.RawMessage
			if err := json.Unmarshal(a, &none); err != nil || len(none) > 0 {
				return "", fmt.Errorf("clock takes no arguments")
			}
			return left().String(), nil
		},
	}
}

func (l Left) String() string {
	lines := []string{"time left: no limit", "tokens left: no limit", "money left: no limit"}
	if l.Time != nil {
		lines[0] = "time left: " + max(0, *l.Time).Round(time.Second).String()
	}
	if l.Tokens != nil {
		lines[1] = fmt.Sprintf("tokens left: %d", max(0, *l.Tokens))
	}
	if l.USD != nil {
		lines[2] = fmt.Sprintf("money left: $%.4f", max(0, *l.USD))
	}
	return strings.Join(lines, "\n")
}
