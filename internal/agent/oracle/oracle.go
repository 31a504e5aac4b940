// Package oracle is the agent that runs a task's own gold solution, which the
// job has put at /solution. It never holds the key and never copies anything;
// a script that fails is a report, not an error.
package oracle

import (
	"context"
	"fmt"

	"assay/internal/agent"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

const (
	script = "/solution/solve.sh"
	log    = "oracle.txt" // as in Harbor
)

// Agent runs gold solutions.
type Agent struct{}

// New returns the agent.
func New() Agent { return Agent{} }

// Info names the agent.
func (Agent) Info() trial.AgentInfo { return trial.AgentInfo{Name: "oracle", Version: "1.0.0"} }

// Needs asks for the solution.
func (Agent) Needs(task.Brief) (agent.Needs, error) {
	return agent.Needs{Solution: true}, nil
}

// Run runs the solution's script in the workdir. [solution].env is in the
// session's environment; the rest is Harbor's.
func (Agent) Run(ctx context.Context, s agent.Session) (agent.Report, error) {
	call := s.Recorder.Call("bash", map[string]string{"command": script})
	ran, err := s.Exec(ctx, agent.Program{
		Args: sandbox.Script(script), Env: []string{"DEBIAN_FRONTEND=noninteractive"}, Log: log,
	})
	if err != nil {
		call.Done("not run: " + err.Error())
		return agent.Report{}, fmt.Errorf("oracle: %w", err)
	}
	call.Done(ran.Text())
	report := agent.Report{Exit: &ran.Exit}
	report.Add(ran)
	return report, s.LogExit(ran.Exit)
}
