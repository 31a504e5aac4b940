package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// BriefFile is where agents that are programs find the instruction: outside
// every workspace.
const BriefFile image.Path = "/tmp/assay/brief.md"

// maxBriefVariable keeps the instruction below what the kernel takes as one
// environment variable (128 KiB); the file always holds all of it.
const maxBriefVariable = 100 << 10

// BriefFiles is what an agent that is a program needs in its sandbox.
func BriefFiles(instruction string) []File {
	return []File{{Path: BriefFile, Mode: 0o644, Data: []byte(instruction)}}
}

// Program is one command of an agent.
type Program struct {
	Args []string
	Env  []string
	Bare bool   // without the variables that say what is to be done
	Log  string // file in Session.Logs that gets the output, without the trial's key; appended to
}

// Ran is how a program ended. The zero Exit of a program that was cut off is
// what the kill made of it.
type Ran struct {
	Output   string // both streams, at most Session.Output bytes of each
	Exit     int
	Signal   syscall.Signal // 0 unless one ended it
	TimedOut bool           // the deadline ended it
	Stopped  bool           // another limit did
	CPU      time.Duration
	MaxRSS   int64 // bytes
	// OutOfMemory: processes of the sandbox were ended for its memory limit
	// while the program ran.
	OutOfMemory bool
}

// Exec runs a program to its end or to the end of ctx, which kills it. A
// program that cannot be started counts as a shell counts it: 127 and a
// message. An error is a fault of the harness or a cancelled ctx.
func (s Session) Exec(ctx context.Context, p Program) (Ran, error) {
	log, err := s.openLog(p.Log)
	if err != nil {
		return Ran{}, err
	}
	defer log.Close()
	if ctx.Err() != nil {
		return s.cutOff(ctx, Ran{})
	}
	res, err := sandbox.Exec(ctx, s.Sandbox, sandbox.Command{
		Args: p.Args, Env: s.env(p), Dir: s.Workdir, User: s.User,
	}, sandbox.ExecOptions{Cap: s.Output, Stdout: log, Stderr: log})
	if e := ScrubFile(log, s.key()); e != nil {
		return Ran{}, e
	}
	if errors.Is(err, sandbox.ErrNotStarted) {
		msg := err.Error() + "\n"
		_, err := log.WriteString(msg)
		return Ran{Output: msg, Exit: 127}, err
	}
	if err != nil {
		return Ran{}, fmt.Errorf("run %q: %w", p.Args[0], err)
	}
	ran := Ran{
		Output: ScrubText(string(res.Stdout)+string(res.Stderr), s.key()), Exit: res.Exit.Code, Signal: res.Exit.Signal,
		CPU: res.Exit.CPU, MaxRSS: res.Exit.MaxRSS, OutOfMemory: res.Exit.OutOfMemory,
	}
	if res.Dropped > 0 {
		msg := fmt.Sprintf("\n[%d bytes of output dropped]\n", res.Dropped)
		ran.Output += msg
		if _, err := log.WriteString(msg); err != nil {
			return ran, err
		}
	}
	if res.Cancelled || res.TimedOut {
		return s.cutOff(ctx, ran)
	}
	return ran, nil
}

// key is the trial's own, which must stand in nothing that is kept.
func (s Session) key() string {
	if s.Model == nil {
		return ""
	}
	return s.Model.Key
}

// cutOff tells the deadline and other limits, which are a report, from a
// cancellation, which ends the trial.
func (s Session) cutOff(ctx context.Context, ran Ran) (Ran, error) {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrDeadline) || errors.Is(cause, context.DeadlineExceeded) {
		ran.TimedOut = true
		return ran, nil
	}
	if errors.Is(cause, ErrStopped) {
		ran.Stopped = true
		return ran, nil
	}
	return ran, cause
}

// env is the session's environment, the variables that say what is to be done
// and by which model, and the program's own.
func (s Session) env(p Program) []string {
	env := slices.Clone(s.Env)
	if p.Bare {
		return append(env, p.Env...)
	}
	brief := head(s.Brief.Instruction, maxBriefVariable)
	env = append(env, s.Model.Env()...)
	env = append(env,
		"ASSAY_TASK="+noNUL(s.Brief.Task), "ASSAY_STEP="+noNUL(s.Brief.Step),
		"ASSAY_BRIEF="+noNUL(brief), "ASSAY_BRIEF_FILE="+string(BriefFile))
	if s.MCP != "" {
		env = append(env, "ASSAY_MCP_URL="+s.MCP)
	}
	return append(env, p.Env...)
}

func noNUL(s string) string {
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] != 0 {
			b = append(b, s[i])
		}
	}
	return string(b)
}

func (s Session) openLog(name string) (*os.File, error) {
	if err := os.MkdirAll(string(s.Logs), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(string(s.Logs), name), os.O_CREATE|os.O_RDWR, 0o644)
	if err == nil {
		_, err = f.Seek(0, io.SeekEnd) // appending mode would not let a key be written over
	}
	return f, err
}

// LogExit writes a non-zero exit status to exit-code.txt, as Harbor does.
func (s Session) LogExit(code int) error {
	if code == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(string(s.Logs), "exit-code.txt"), []byte(strconv.Itoa(code)), 0o644)
}

// Add puts what a program used into a report: its CPU time is added, of the
// peaks of memory the highest counts.
func (r *Report) Add(ran Ran) {
	cpu, rss := ran.CPU, ran.MaxRSS
	if r.CPU != nil {
		cpu += *r.CPU
	}
	if r.MaxRSS != nil {
		rss = max(rss, *r.MaxRSS)
	}
	r.CPU, r.MaxRSS = &cpu, &rss
	r.Signal = ran.Signal
	r.TimedOut = r.TimedOut || ran.TimedOut
	r.Stopped = r.Stopped || ran.Stopped
	r.OutOfMemory = r.OutOfMemory || ran.OutOfMemory
}

// Text is the output as a trajectory shows it, with what is not plain to see:
// how the program ended.
func (r Ran) Text() string {
	switch {
	case r.TimedOut:
		return r.Output + "\n[ended at the deadline]"
	case r.Stopped:
		return r.Output + "\n[ended by a limit]"
	case r.Exit != 0 && r.OutOfMemory:
		return fmt.Sprintf("%s\n[out of memory; exit status %d]", r.Output, r.Exit)
	case r.Exit != 0:
		return fmt.Sprintf("%s\n[exit status %d]", r.Output, r.Exit)
	}
	return r.Output
}
