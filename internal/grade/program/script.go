package program

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"assay/internal/grade/program/drivers"
	"assay/internal/grade/report"
)

// newTester makes the sandbox of test scripts: the image, and no candidate.
func (r *Request) newTester(ctx context.Context) (*stand, error) {
	sb, err := r.Pristine(ctx)
	if err != nil {
		return nil, err
	}
	s := &stand{r: r, sb: sb, driver: drivers.Tester()}
	if s.snap, err = sb.Snapshot(ctx); err != nil {
		sb.Close()
		return nil, err
	}
	return s, nil
}

// script runs a test script, in a sandbox without the candidate. Its calls come
// here, go to the candidate's sandbox as data, and the answers come back as
// data: the verdict is a process's that no code of the candidate runs in.
func (c *court) script(ctx context.Context, one *Case) (report.Test, error) {
	if err := c.testers.reset(ctx); err != nil {
		return report.Test{}, err
	}
	there, err := c.stand.open(ctx)
	if err != nil {
		return blamed(one, err)
	}
	defer there.end()
	here, err := c.testers.talk(ctx)
	if err != nil {
		return report.Test{}, err
	}
	defer here.end()
	here.tell(one.scriptQuestion(c.r.Suite.Reference))
	for calls := 0; ; calls++ {
		data, err := here.hear(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return report.Test{}, err
			}
			return result(one, report.Errored, report.KindException, "the test script's process ended: "+here.said.String()), nil
		}
		v, err := Decode(data)
		if err != nil || v.Kind != Dict || len(v.Items) != 2 {
			return report.Test{}, fmt.Errorf("the tester's message %q", shorten(string(data), shown))
		}
		switch v.Items[0].S {
		case "passed":
			if calls == 0 {
				return answer(one, "the test script called nothing"), nil
			}
			return answer(one, ""), nil
		case "failed":
			return one.scriptFailed(v.Items[1]), nil
		}
		reply, err := carry(ctx, one, there, v.Items[1])
		if err != nil {
			return blamed(one, err)
		}
		here.tell(reply)
	}
}

// carry makes one call of the script's and returns the answer, written anew.
func carry(ctx context.Context, one *Case, there *talk, call Value) ([]byte, error) {
	f := &fields{v: call, used: map[string]bool{}}
	args, _ := f.get("args", List)
	kwargs, _ := f.get("kwargs", Dict)
	q := Call{Func: f.str("func"), Args: args.Items, Kwargs: kwargs}
	if f.err != nil || !slices.Contains(one.Funcs, q.Func) {
		return nil, fmt.Errorf("the tester calls %q: %w", q.Func, f.err)
	}
	got, err := there.call(ctx, q.question())
	if err != nil {
		return nil, err
	}
	return got.append(nil), nil
}

// blamed is the result of a case whose candidate gave no answer.
func blamed(one *Case, err error) (report.Test, error) {
	var f *fault
	if !errors.As(err, &f) {
		return report.Test{}, err
	}
	if f.kind == report.KindAssertion {
		return answer(one, f.why), nil
	}
	return result(one, report.Errored, f.kind, f.why), nil
}

func (one *Case) scriptQuestion(reference []byte) []byte {
	names := list()
	for _, n := range one.Funcs {
		names.Items = append(names.Items, text(n))
	}
	b := quote([]byte(`{"script":`), one.Script)
	b = quote(append(b, `,"reference":`...), string(reference))
	return append(names.append(append(b, `,"funcs":`...)), '}')
}

func (one *Case) scriptFailed(v Value) report.Test {
	f := &fields{v: v, used: map[string]bool{}}
	line, _ := f.get("line", Int)
	assertion, _ := f.get("assertion", Bool)
	e, _ := f.get("error", Dict)
	r, err := raisedOf(e)
	if err != nil || line.Kind != Int {
		return result(one, report.Errored, report.KindException, "the test script failed")
	}
	why := fmt.Sprintf("line %v of the test script: %v", line, r)
	if assertion.B {
		return answer(one, why)
	}
	return result(one, report.Errored, report.KindException, why)
}
