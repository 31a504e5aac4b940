// Package script is the agent that follows a file of shell steps: the same
// steps for every task, each its own step of the trajectory. It decides
// nothing, asks no model, and goes on after a step that fails.
package script

import (
	"context"
	"fmt"

	"assay/internal/agent"
	"assay/task"
	"assay/trial"
)

const log = "script.txt"

// Agent runs the steps of one file.
type Agent struct{ steps []step }

// New reads a file of steps; name stands in errors. See the format at [parse].
func New(name string, text []byte) (Agent, error) {
	steps, err := parse(text)
	if err != nil {
		return Agent{}, fmt.Errorf("%s:%w", name, err)
	}
	return Agent{steps}, nil
}

// Info names the agent.
func (Agent) Info() trial.AgentInfo { return trial.AgentInfo{Name: "script", Version: "1.0.0"} }

// Needs asks for the brief as a file. Its steps may ask a model, if there is one.
func (Agent) Needs(b task.Brief) (agent.Needs, error) {
	return agent.Needs{Files: agent.BriefFiles(b.Instruction), Dialect: agent.AnyDialect, Optional: true}, nil
}

// Run runs every step meant for this task until the deadline. The report's
// exit status is the first that is not zero; null when no step was meant for
// the task.
func (a Agent) Run(ctx context.Context, s agent.Session) (agent.Report, error) {
	var report agent.Report
	for _, st := range a.steps {
		if !st.meant(s.Brief.Task) {
			continue
		}
		if st.title != "" {
			s.Recorder.Say(st.title)
		}
		call := s.Recorder.Call("bash", map[string]string{"command": st.text})
		ran, err := s.Exec(ctx, agent.Program{
			Args: []string{"/bin/sh", "-c", `exec /bin/sh -c "$0" 2>&1`, st.text}, Log: log,
		})
		if err != nil {
			call.Done("not run: " + err.Error())
			return report, fmt.Errorf("script, line %d: %w", st.line, err)
		}
		call.Done(ran.Text())
		report.Add(ran)
		if report.Exit == nil || *report.Exit == 0 {
			report.Exit = &ran.Exit
		}
		if ran.TimedOut {
			break
		}
	}
	if report.Exit == nil {
		s.Recorder.Say("no step of the script is meant for this task")
		return report, nil
	}
	return report, s.LogExit(*report.Exit)
}
