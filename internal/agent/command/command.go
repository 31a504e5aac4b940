// Package command is the agent that runs any program in the sandbox: a shell
// command line of the user's. It gives the program the brief and nothing else,
// keeps its output and exit status, and never interprets what it says.
//
// The program finds the instruction in the file /tmp/assay/brief.md
// (ASSAY_BRIEF_FILE) and, up to 100 KiB of it, in ASSAY_BRIEF; ASSAY_TASK names
// the task and ASSAY_STEP the step of a multi-step task. Where a model was asked
// for, ASSAY_MODEL_URL, ASSAY_MODEL_KEY, ASSAY_MODEL and the variables of the
// vendors' libraries lead to it; where the host offers tools, ASSAY_MCP_URL is
// their MCP server. It runs in the workdir. What it writes below /logs/agent is kept beside its output.
package command

import (
	"context"
	"fmt"

	"assay/internal/agent"
	"assay/task"
	"assay/trial"
)

const log = "command.txt"

// Agent runs one command line.
type Agent struct{ line string }

// New returns an agent that runs line with the sandbox's /bin/sh.
func New(line string) Agent { return Agent{line} }

// Info names the agent. The version of the program is not known.
func (Agent) Info() trial.AgentInfo { return trial.AgentInfo{Name: "command", Version: "unknown"} }

// Needs asks for the brief as a file. The program may ask a model, if there is one.
func (Agent) Needs(b task.Brief) (agent.Needs, error) {
	return agent.Needs{Files: agent.BriefFiles(b.Instruction), Dialect: agent.AnyDialect, Optional: true}, nil
}

// Run runs the program to its end or to the deadline.
func (a Agent) Run(ctx context.Context, s agent.Session) (agent.Report, error) {
	call := s.Recorder.Call("bash", map[string]string{"command": a.line})
	ran, err := s.Exec(ctx, agent.Program{
		// The inner shell runs the line, the outer one makes both streams one.
		Args: []string{"/bin/sh", "-c", `exec /bin/sh -c "$0" 2>&1`, a.line}, Log: log,
	})
	if err != nil {
		call.Done("not run: " + err.Error())
		return agent.Report{}, fmt.Errorf("command: %w", err)
	}
	call.Done(ran.Text())
	report := agent.Report{Exit: &ran.Exit}
	report.Add(ran)
	return report, s.LogExit(ran.Exit)
}
