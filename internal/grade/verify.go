package grade

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// verify runs the verifier in sb, which is the verifier's own.
func (r Request) verify(ctx context.Context, sb sandbox.Sandbox) (Verdict, error) {
	notes, err := r.prepare(ctx, sb)
	if r.Mode != task.VerifierSealed {
		err = byWork(ctx, err)
	}
	if full(err) {
		return Verdict{Notes: notes, Cause: trial.CauseDiskLimit, Detail: "no room for the tests: " + err.Error()}, nil
	}
	if err != nil {
		return Verdict{Notes: notes}, err
	}
	v, ended, err := r.run(ctx, sb)
	v.Notes = append(notes, v.Notes...)
	if err != nil {
		return v, err
	}
	// Nothing may write a reward any more once rewards are read.
	if err := r.silence(ctx, sb); err != nil {
		return v, err
	}
	rewards, more, err := r.collectRewards(ctx, sb)
	v.Notes = append(v.Notes, more...)
	var bad *RewardError
	switch {
	case err != nil && !errors.As(err, &bad):
		return v, err
	case v.Cause != "": // decided before: a timeout's rewards do not count
		return v, nil
	case bad != nil:
		v.Cause, v.Detail = bad.Cause, bad.Error()
		if bad.Cause == trial.CauseRewardMissing && ended != "" {
			v.Detail += "; " + ended
		}
		return v, nil
	}
	v.Rewards, v.Cause = rewards, trial.CauseUnsolved
	if trial.Solved(rewards) {
		v.Cause = trial.CauseSolved
	}
	return v, nil
}

// silence ends every process in the sandbox, except where later steps need the
// agent's: there only the script's own session has ended.
func (r Request) silence(ctx context.Context, sb sandbox.Sandbox) error {
	if r.Mode == task.VerifierLive && r.KeepAlive {
		return nil
	}
	if err := sb.Kill(ctx); err != nil {
		return fmt.Errorf("end the verifier's processes: %w", err)
	}
	return nil
}

// prepare makes the directories that Harbor's verifiers expect and puts the
// tests, or what a separate verifier may see of the agent's work, in place.
func (r Request) prepare(ctx context.Context, sb sandbox.Sandbox) (notes []string, err error) {
	if err := putLogs(ctx, sb); err != nil {
		return nil, err
	}
	if r.Mode == task.VerifierSeparate {
		if notes, err = r.putArtifacts(ctx, sb); err != nil {
			return notes, fmt.Errorf("put artifacts: %w", err)
		}
		if r.Key.Bundled {
			return notes, nil // its image holds the tests
		}
	}
	return notes, r.putTests(ctx, sb)
}

// putLogs makes /logs and its three directories, open to every user.
func putLogs(ctx context.Context, sb sandbox.Trees) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, d := range []string{"agent/", "artifacts/", "verifier/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o777}); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := sb.Put(ctx, "/"+logsDir, &b); err != nil {
		return fmt.Errorf("make /%s: %w", logsDir, err)
	}
	return nil
}

// putTests copies the key's test directories, later ones on top, then single
// files, and makes the script executable whatever its mode on the host.
func (r Request) putTests(ctx context.Context, sb sandbox.Trees) error {
	files, err := r.testFiles()
	if err != nil {
		return &taskError{err}
	}
	skips := make([]func(string, bool) bool, len(r.Key.Tests))
	for i, dir := range r.Key.Tests {
		if skips[i], err = r.skip(dir); err != nil {
			return &taskError{err}
		}
	}
	err = sandbox.PutAll(ctx, sb, "/"+testsDir, func(w *tar.Writer) error {
		for i, dir := range r.Key.Tests {
			err := sandbox.AddDir(ctx, w, "", dir, sandbox.TreeCaps{Skip: skips[i]})
			if err != nil && !full(err) && hostFault(err) {
				err = &taskError{fmt.Errorf("tests %s: %w", dir, err)}
			}
			if err != nil {
				return err
			}
		}
		return addFiles(w, files)
	})
	var te *taskError
	if err != nil && !errors.As(err, &te) {
		err = fmt.Errorf("put tests: %w", err)
	}
	return err
}

// addFiles adds executable files, in order of their names.
func addFiles(w *tar.Writer, files map[string][]byte) error {
	for _, name := range sortedKeys(files) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(files[name]))}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(files[name]); err != nil {
			return err
		}
	}
	return nil
}

// testFiles are the key's single files and the script: all are executable.
func (r Request) testFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, b := range r.Key.TestFiles {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("test file %q is not a path below tests/", name)
		}
		files[name] = b
	}
	if files[r.Key.Script] == nil {
		b, err := r.script()
		if err != nil {
			return nil, err
		}
		files[r.Key.Script] = b
	}
	return files, nil
}

// skip says what of a test directory stays at home.
func (r Request) skip(dir string) (func(rel string, dir bool) bool, error) {
	if r.Inputs == nil {
		return skipIgnoreFiles, nil
	}
	names, err := r.Inputs(dir)
	if err != nil {
		return nil, err
	}
	in := make(map[string]bool, len(names))
	for _, n := range names {
		in[n] = true
	}
	return func(rel string, _ bool) bool { return !in[rel] }, nil
}

// skipIgnoreFiles leaves .harborignore files at home: they say what is copied
// and are copied nowhere.
func skipIgnoreFiles(rel string, _ bool) bool { return filepath.Base(rel) == ".harborignore" }

// script reads the test script from the last directory that has one.
func (r Request) script() ([]byte, error) {
	if !filepath.IsLocal(r.Key.Script) {
		return nil, fmt.Errorf("test script %q is not a path below tests/", r.Key.Script)
	}
	for _, dir := range slices.Backward(r.Key.Tests) {
		b, err := readHostFile(dir, r.Key.Script, maxScript)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("test script: %w", err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("no %s in %s", r.Key.Script, strings.Join(r.Key.Tests, " or "))
}

// readHostFile reads a regular file below dir; no link leads out.
func readHostFile(dir, name string, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", filepath.Join(dir, name))
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, ok, err := readCapped(f, limit)
	if err == nil && !ok {
		err = fmt.Errorf("%s is larger than %d bytes", filepath.Join(dir, name), limit)
	}
	return b, err
}

// run starts the script and waits for it. ended is a note on how it ended, for
// the case that there is no reward.
func (r Request) run(ctx context.Context, sb sandbox.Sandbox) (v Verdict, ended string, err error) {
	out, err := os.OpenFile(filepath.Join(string(r.Out), TestStdout), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return v, "", err
	}
	defer out.Close()
	res, err := sandbox.Exec(ctx, sb, sandbox.Command{
		Args: sandbox.Script("/" + testsDir + "/" + image.Path(r.Key.Script)), Env: r.Env, Dir: r.Workdir, User: r.Key.User,
	}, sandbox.ExecOptions{
		Timeout: r.Key.Timeout, Grace: r.Grace, Cap: r.OutputCap, Stdout: out, Stderr: out,
	})
	switch {
	case errors.Is(err, sandbox.ErrNotStarted):
		return r.notStarted(v, err), err.Error(), nil
	case err != nil:
		return v, "", fmt.Errorf("run the verifier: %w", err)
	case res.Cancelled:
		return v, "", context.Cause(ctx)
	}
	v.TestsTime, v.CPU, v.MaxRSS = res.Wall, &res.Exit.CPU, &res.Exit.MaxRSS
	if res.Dropped > 0 {
		fmt.Fprintf(out, "\n[%d bytes of output beyond the cap of %d were dropped]\n", res.Dropped, r.OutputCap)
		v.Notes = append(v.Notes, fmt.Sprintf("the verifier's output was cut: %d bytes dropped", res.Dropped))
	}
	if res.Exit.OutOfMemory {
		v.Notes = append(v.Notes, "the memory limit ended processes of the verifier")
	}
	if res.TimedOut {
		v.Cause = trial.CauseVerifierTimeout
		v.Detail = fmt.Sprintf("the verifier did not end within %v", r.Key.Timeout)
		return v, "", out.Close()
	}
	v.TestExit = &res.Exit.Code
	return v, fmt.Sprintf("the test script ended with %d", res.Exit.Code), out.Close()
}

// notStarted judges a verifier that could not be started: the task's fault in
// a pristine sandbox, the agent's where its own tree is judged.
func (r Request) notStarted(v Verdict, err error) Verdict {
	if r.Mode == task.VerifierSeparate || r.Key.Grade == task.GradePatch {
		v.Cause, v.Detail = trial.CauseTaskMalformed, "the verifier does not start: "+err.Error()
	}
	return v
}

// live runs the verifier where the agent ran, its processes alive: Harbor's
// shared mode. Nothing of it can be trusted more than that.
func (r Request) live(ctx context.Context, plan *checks.Plan) (v Verdict, err error) {
	if r.Live == nil {
		return Verdict{}, errors.New("live mode without the agent's sandbox")
	}
	if err := r.clear(ctx); err != nil {
		return Verdict{}, byWork(ctx, err)
	}
	if plan != nil {
		v, err = r.checked(ctx, plan)
	} else {
		v, err = r.verify(ctx, r.Live)
	}
	if err == nil && r.KeepAlive {
		err = byWork(ctx, r.clear(ctx)) // the next step's agent sees neither tests nor rewards
	}
	return v, err
}

// clear empties /logs/verifier and /tests in the live sandbox.
func (r Request) clear(ctx context.Context) error {
	res, err := sandbox.Exec(ctx, r.Live, sandbox.Command{
		Args: []string{"/bin/sh", "-c", `rm -rf -- "$@"`, "sh", "/" + verifierDir, "/" + testsDir}, Dir: "/", User: "0",
	}, sandbox.ExecOptions{Timeout: defaultTimeout})
	if err != nil {
		return fmt.Errorf("clear /%s: %w", verifierDir, err)
	}
	if res.Cancelled {
		return context.Cause(ctx)
	}
	return nil
}

// hostFault reports whether putting a tree failed for what it holds.
func hostFault(err error) bool {
	return errors.Is(err, sandbox.ErrTooLarge) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
		strings.HasPrefix(err.Error(), "read ")
}
