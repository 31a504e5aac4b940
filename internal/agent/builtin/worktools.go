package builtin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/sandbox"
)

// maxPlan bounds the plan, in bytes: it goes into every new root.
const maxPlan = 16 << 10

func bash(ctx context.Context, r *run, a arguments) (observation, error) {
	got, err := r.shell.run(ctx, a.text["command"], r.strategy.timeout(a.num["timeout"]))
	text := strings.TrimRight(got.output, "\n")
	switch {
	case got.note != "":
		text += "\n[" + got.note + "]"
	case got.status != 0:
		text += fmt.Sprintf("\n[exit status %d]", got.status)
	case text == "" && err == nil:
		text = "[no output]"
	}
	return observation{text: strings.TrimPrefix(text, "\n"), bad: got.failed || err != nil}, err
}

func setPlan(_ context.Context, r *run, a arguments) (observation, error) {
	r.notes = clip(strings.TrimSpace(a.text["plan"]), maxPlan)
	return observation{text: "[noted]"}, nil
}

// submit ends the work, or, with repair, sends it back with what its own check
// says, as often as the strategy allows.
func submit(ctx context.Context, r *run, a arguments) (observation, error) {
	if !r.strategy.Repair {
		return observation{text: "[handed in]", done: true}, nil
	}
	check := strings.TrimSpace(a.text["check"])
	switch {
	case strings.ContainsRune(check, 0):
		return failure("[not run: the check holds a zero byte]"), nil
	case check == "" && !r.unchecked && r.strategy.Retries > 0:
		r.unchecked = true
		return failure("[not handed in: give a shell command in `check` that shows that the work is right; if there is none, submit again without]"), nil
	case check == "":
		return observation{text: "[handed in without a check]", done: true}, nil
	}
	// A shell of its own, so that no leftover of the work can make it pass.
	out := headTail{max: r.strategy.Output}
	res, err := sandbox.Exec(ctx, r.s.Sandbox, sandbox.Command{
		Args: []string{"/bin/sh", "-c", `exec 2>&1; command -v bash >/dev/null 2>&1 && exec bash -c "$0"; exec sh -c "$0"`, check},
		Env:  r.box.env, Dir: r.s.Workdir, User: r.s.User,
	}, sandbox.ExecOptions{Timeout: r.strategy.timeout(r.strategy.MaxTimeout), Cap: 4 << 20, Stdout: &out})
	if err != nil {
		return told(notStarted(err))
	}
	r.use.add(res.Exit)
	switch {
	case res.Cancelled:
		return observation{text: out.String(), bad: true}, context.Cause(ctx)
	case !res.TimedOut && res.Exit.Code == 0:
		r.checked = "passed"
		return observation{text: below(out.String()) + "[the check passed; handed in]", done: true}, nil
	}
	r.checked = "failed"
	how := fmt.Sprintf("exit status %d", res.Exit.Code)
	if res.TimedOut {
		how = "killed: it took too long"
	}
	text := below(out.String()) + "[check: " + how + "]\n"
	if r.repaired >= r.strategy.Retries {
		return observation{text: text + "[no repair is left: handed in as it is]", bad: true, done: true}, nil
	}
	r.repaired++
	word, err := r.say("refused", func(s *situation) { s.Left = r.strategy.Retries - r.repaired })
	return observation{text: text + word, bad: true}, err
}

// below is output that a line can follow.
func below(output string) string {
	if output = strings.TrimRight(output, "\n"); output != "" {
		output += "\n"
	}
	return output
}

// notStarted makes of a program that is not there something to tell.
func notStarted(err error) error {
	if errors.Is(err, sandbox.ErrNotStarted) {
		return toolError(err.Error())
	}
	return err
}

// commandEnv is the environment of everything that is run; the task's word
// counts more than the strategy's.
func commandEnv(s Strategy, session []string) []string {
	var env []string
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, k+"="+s.Env[k])
	}
	return append(env, session...)
}
