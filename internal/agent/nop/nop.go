// Package nop is the agent that does nothing: what a task must not be solved
// by. It starts no program, touches no file, and leaves one honest trajectory.
package nop

import (
	"context"

	"assay/internal/agent"
	"assay/task"
	"assay/trial"
)

// Agent does nothing.
type Agent struct{}

// New returns the agent.
func New() Agent { return Agent{} }

// Info names the agent.
func (Agent) Info() trial.AgentInfo { return trial.AgentInfo{Name: "nop", Version: "1.0.0"} }

// Needs asks for nothing.
func (Agent) Needs(task.Brief) (agent.Needs, error) { return agent.Needs{}, nil }

// Run says that it does nothing. The report has no exit status, since no
// program ran.
func (Agent) Run(_ context.Context, s agent.Session) (agent.Report, error) {
	s.Recorder.Say("I do nothing.")
	return agent.Report{}, nil
}
