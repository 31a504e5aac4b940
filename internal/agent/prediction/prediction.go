// Package prediction is the agent that lays an answer which was made elsewhere
// on a task's tree: a patch, a program, or the rest of one. It tries what
// SWE-bench tries to apply a patch, in the same order, says which try worked,
// and leaves the tree as it was where none does. It asks no model, holds no
// task.Key, and never mends a patch.
package prediction

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

//go:embed apply.sh
var script string

const (
	patchFile  image.Path = "/tmp/assay/prediction.patch"
	pathsFile  image.Path = "/tmp/assay/prediction.paths"
	log                   = "prediction.txt"
	maxProgram            = 16 << 20 // bytes of a file that a completion goes on from
	// plainAnswer is where a program belongs, in the working directory, in
	// tasks that do not say.
	plainAnswer = "solution.py"
)

// Kind says what an answer is.
type Kind string

const (
	Patch      Kind = "patch"
	Solution   Kind = "solution"   // a whole program: it replaces the answer's file
	Completion Kind = "completion" // it is put to the end of the answer's file
)

// Agent lays one answer on a tree.
type Agent struct {
	info   trial.AgentInfo
	digest string
	kind   Kind
	text   string
	paths  []string // that a patch names; nil: it cannot be understood
	most   int      // bytes that its files may hold where assay itself applies it
}

// New returns the agent of one answer by model. The one without text stands
// for all answers of a model where only its name matters.
func New(model, digest string, kind Kind, text string) *Agent {
	a := &Agent{
		info:   trial.AgentInfo{Name: "prediction", Version: "1.0.0", Model: &trial.ModelInfo{Name: model}},
		digest: digest, kind: kind, text: text, most: maxWritten,
	}
	if kind == Patch {
		a.paths, _ = patchPaths(text) // what cannot be understood is only applied in one piece, or not at all
	}
	return a
}

// Info names the agent, and the model whose answer it lays.
func (a *Agent) Info() trial.AgentInfo { return a.info }

// Needs asks for the patch as a file outside of the workspace.
func (a *Agent) Needs(task.Brief) (agent.Needs, error) {
	if a.kind != Patch {
		return agent.Needs{}, nil
	}
	return agent.Needs{Files: []agent.File{
		{Path: patchFile, Mode: 0o644, Data: []byte(a.text)},
		{Path: pathsFile, Mode: 0o644, Data: []byte(strings.Join(append(a.paths, ""), "\n"))},
	}}, nil
}

// Run lays the answer on the tree. One that cannot be laid is a report with
// cause patch_failed.
func (a *Agent) Run(ctx context.Context, s agent.Session) (agent.Report, error) {
	var report agent.Report
	var how, why string
	var err error
	if a.kind == Patch {
		how, why, err = a.patch(ctx, s, &report)
	} else {
		how, why, err = a.program(ctx, s)
	}
	if err != nil {
		return report, fmt.Errorf("prediction: %w", err)
	}
	if report.TimedOut || report.Stopped {
		return report, nil
	}
	report.Metadata = map[string]any{"prediction": a.digest, "kind": string(a.kind), "applied_by": how}
	if how == "" {
		report.Cause, report.Detail = trial.CausePatchFailed, why
	}
	return report, nil
}

// patch applies a patch; how names the try that worked, why is of the last one
// that did not.
func (a *Agent) patch(ctx context.Context, s agent.Session, report *agent.Report) (how, why string, err error) {
	call := s.Recorder.Call("apply", map[string]string{"patch": a.digest})
	ran, err := s.Exec(ctx, agent.Program{Args: []string{"/bin/sh", "-c", script, "apply", string(patchFile), string(pathsFile)}, Bare: true, Log: log})
	if err != nil {
		call.Done("not run: " + err.Error())
		return "", "", err
	}
	report.Add(ran)
	report.Exit = &ran.Exit
	call.Done(ran.Text())
	if ran.Exit == 0 {
		for line := range strings.Lines(ran.Output) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "applied by: "); ok {
				how = name
			}
		}
		return how, "the script said nothing of how it applied the patch", nil
	}
	if ran.Exit == noTools {
		call := s.Recorder.Call("apply", map[string]string{"patch": a.digest, "by": "assay"})
		why, err := a.here(ctx, s)
		if why == "" && err == nil {
			ran.Exit = 0 // the script's word was that it has no tools
			call.Done("applied by: assay")
			return "assay", "", nil
		}
		call.Done("not applied: " + why)
		return "", why, err
	}
	return "", "the patch does not apply: " + lastLine(ran.Output), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	return strings.ToValidUTF8(last[:min(len(last), 300)], "")
}

// program writes an answer that is a program, or the rest of one.
func (a *Agent) program(ctx context.Context, s agent.Session) (how, why string, err error) {
	name := path.Join(string(s.Workdir), plainAnswer)
	switch n := len(s.Brief.Answer); {
	case n == 1:
		name = s.Brief.Answer[0]
	case n > 1:
		return "", fmt.Sprintf("the task wants %d files, and a program is one", n), nil
	}
	call := s.Recorder.Call("write", map[string]string{"file": name})
	text, how := a.text, "written"
	if a.kind == Completion {
		before, err := readFile(ctx, s.Sandbox, name)
		if errors.Is(err, fs.ErrNotExist) {
			call.Done("there is no " + name)
			return "", "there is no " + name + " that a completion could go on from", nil
		}
		if err != nil {
			return "", "", err
		}
		text, how = before+text, "appended"
	}
	if err := writeFiles(ctx, s.Sandbox, []written{{name, []byte(text), 0o644}}); err != nil {
		return "", "", err
	}
	call.Done(how)
	return how, "", nil
}

// readFile reads a regular file of the sandbox.
func readFile(ctx context.Context, sb sandbox.Trees, name string) (string, error) {
	var buf bytes.Buffer
	if err := sb.Get(ctx, image.Path(name), &buf, maxProgram); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	r := tar.NewReader(&buf)
	h, err := r.Next()
	if errors.Is(err, io.EOF) || err == nil && h.Typeflag != tar.TypeReg {
		return "", fmt.Errorf("read %s: not a regular file: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxProgram))
	return string(b), err
}

// written is one file that is put into the sandbox.
type written struct {
	name string // absolute
	data []byte // of a link its target
	mode int64
}

func writeFiles(ctx context.Context, sb sandbox.Trees, files []written) error {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path.Clean(f.name), "/"), Mode: f.mode & 0o777, Size: int64(len(f.data))}
		if f.mode&kindMask == kindLink {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, string(f.data), 0
			f.data = nil
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return sb.Put(ctx, "/", &buf)
}
