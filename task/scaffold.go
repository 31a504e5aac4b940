package task

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// Scaffold says what a new task is to be; the zero value works.
type Scaffold struct {
	Name        string    // "org/short"; empty: the directory's name below "local/"
	Instruction string    // empty: a small exercise that is already solved and tested
	Grade       GradeKind // empty: patch
	Image       string    // FROM of the Dockerfile; empty: debian:bookworm-slim
	Steps       []string  // names; empty: single-step
}

const (
	scaffoldInstruction = `Write a file named ` + "`greeting.txt`" + ` into the current directory. Its only line
is the greeting: hello world
`
	scaffoldDockerfile = `FROM %s
WORKDIR /app
`
	scaffoldTest = `#!/bin/sh
# Runs in the working directory after the agent is gone. Whatever it prints is
# kept; what counts is the reward in /logs/verifier/reward.txt.
reward=0
if [ "$(cat greeting.txt)" = "hello world" ]; then
	reward=1
else
	echo "greeting.txt is missing or holds something else"
fi
mkdir -p /logs/verifier
echo "$reward" >/logs/verifier/reward.txt
`
	scaffoldSolve = `#!/bin/sh
# The gold solution, run in the working directory.
set -e
echo "hello world" >greeting.txt
`
	scaffoldImage   = "debian:bookworm-slim"
	scaffoldWorkdir = "/app"
)

var notInName = regexp.MustCompile(`[^a-zA-Z0-9._-]+|\.\.+`)

// New makes a task directory that works as it stands: its gold solution passes
// and doing nothing fails. The directory must be missing or empty.
func New(dir string, s Scaffold) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("new task: %w", err)
	}
	if _, single, err := taskDirs(abs); err == nil && single {
		return fmt.Errorf("new task: %s already holds a task", abs)
	}
	name := s.Name
	if name == "" {
		name = "local/" + strings.Trim(notInName.ReplaceAllString(filepath.Base(abs), "-"), "-._")
	}
	agent, verifier := 600.0, 120.0
	c := Config{
		Task:        &Package{Name: name, Version: "0.1.0"},
		Agent:       AgentConfig{TimeoutSec: &agent},
		Verifier:    VerifierConfig{TimeoutSec: &verifier},
		Environment: Environment{Workdir: scaffoldWorkdir},
		Metadata: Metadata{Assay: Assay{
			Grade:         GradeKind(cmpOr(string(s.Grade), string(GradePatch))),
			FallbackImage: "host", // the exercise needs nothing but a shell
		}},
	}
	files := []File{
		{Path: "environment/Dockerfile", Data: fmt.Appendf(nil, scaffoldDockerfile, cmpOr(s.Image, scaffoldImage))},
		{Path: "tests/test.sh", Data: []byte(scaffoldTest), Exec: true},
		{Path: "solution/solve.sh", Data: []byte(scaffoldSolve), Exec: true},
	}
	text := []byte(cmpOr(s.Instruction, scaffoldInstruction))
	if len(s.Steps) == 0 {
		files = append(files, File{Path: "instruction.md", Data: text})
	}
	for _, step := range s.Steps {
		c.Steps = append(c.Steps, StepConfig{Name: step, Verifier: VerifierConfig{TimeoutSec: &verifier}})
		files = append(files, File{Path: stepDir(step) + "instruction.md", Data: text})
	}
	if err := Write(abs, c, files); err != nil {
		return fmt.Errorf("new task: %w", err)
	}
	return nil
}
