package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/report"
)

// outcome is what became of one call: a value, or an exception.
type outcome struct {
	value  Value
	raised *raised
}

// raised is an exception as a driver describes it.
type raised struct {
	types   []string // its class and the class's ancestors, by name
	message string
}

func (r *raised) String() string {
	name := "something"
	if len(r.types) > 0 {
		name = r.types[0]
	}
	return shorten(name+": "+r.message, keptOutput)
}

// fault is an answer that is none: what is wrong with it, and whose sort it is.
type fault struct {
	kind report.Kind
	why  string
}

func (f *fault) Error() string { return f.why }

// calls makes a case's calls, one after the other in one process, and compares
// each answer before the next question is asked.
func (c *court) calls(ctx context.Context, one *Case, want []outcome) (report.Test, error) {
	i := 0
	err := c.stand.converse(ctx, one.Calls, func(got outcome) error {
		call := &one.Calls[i]
		w := call.expects(want, i)
		i++
		if why := one.judge(w, call.Raises, got); why != nil {
			return why
		}
		return nil
	})
	var f *fault
	if !errors.As(err, &f) {
		return answer(one, ""), err
	}
	why := f.why
	if len(one.Calls) > 1 && i > 0 {
		why = fmt.Sprintf("call %d: %s", i, why)
	}
	status := report.Errored
	if f.kind == report.KindAssertion {
		status = report.Failed
	}
	return result(one, status, f.kind, why), nil
}

// expects is what the case says, or what the reference gave.
func (c *Call) expects(want []outcome, i int) outcome {
	if c.Want.Kind != Invalid || c.Raises != nil || i >= len(want) {
		return outcome{value: c.Want}
	}
	return want[i]
}

// judge compares one answer.
func (one *Case) judge(want outcome, raises *Raises, got outcome) *fault {
	if want.raised != nil { // by the reference
		raises = &Raises{Type: want.raised.types[0]}
	}
	if raises == nil {
		if got.raised != nil {
			return &fault{report.KindException, got.raised.String()}
		}
		if why := differValue(one.Mode, one.Equal, want.value, got.value); why != "" {
			return &fault{report.KindAssertion, why}
		}
		return nil
	}
	switch {
	case got.raised == nil:
		return &fault{report.KindAssertion, fmt.Sprintf("want %s, got the value %v", raises.Type, got.value)}
	case !slices.Contains(got.raised.types, raises.Type):
		return &fault{report.KindException, fmt.Sprintf("want %s, got %v", raises.Type, got.raised)}
	case raises.Message != nil && !raises.Message.MatchString(got.raised.message):
		return &fault{report.KindAssertion, fmt.Sprintf("want a message like %q, got %q", raises.Message, shorten(got.raised.message, shown))}
	}
	return nil
}

// converse starts the driver, makes the calls, and gives every answer to each.
func (s *stand) converse(ctx context.Context, all []Call, each func(outcome) error) error {
	t, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer t.end()
	for i := range all {
		got, err := t.call(ctx, all[i].question())
		if err != nil {
			return err
		}
		if err := each(got); err != nil {
			return err
		}
	}
	return nil
}

// open starts the driver and waits until the source is loaded.
func (s *stand) open(ctx context.Context) (*talk, error) {
	t, err := s.talk(ctx)
	if err != nil {
		return nil, err
	}
	data, err := t.hear(ctx)
	if err == nil {
		err = loaded(data)
	} else {
		err = t.lost(err)
	}
	if err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

// loaded reads a driver's first message.
func loaded(data []byte) error {
	v, err := Decode(data)
	if err != nil || v.Kind != Dict {
		return &fault{report.KindException, "the process did not say that it is ready"}
	}
	f := &fields{v: v, used: map[string]bool{}}
	if e, ok := f.get("broken"); ok {
		r, err := raisedOf(e)
		if err != nil {
			return err
		}
		kind := report.KindException
		if slices.ContainsFunc(r.types, func(n string) bool { return n == "SyntaxError" || n == "ImportError" }) {
			kind = report.KindBuild
		}
		return &fault{kind, "the source cannot be loaded: " + r.String()}
	}
	if _, ok := f.get("ready"); !ok {
		return &fault{report.KindException, "the process did not say that it is ready"}
	}
	return nil
}

// lost says why there is no answer; the end of ctx stays what it is.
func (t *talk) lost(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	why := err.Error()
	if errors.Is(err, errEnded) {
		why += t.howEnded()
	}
	if said := strings.TrimSpace(t.said.String()); said != "" {
		why += ": " + said
	}
	return &fault{report.KindException, why}
}

// howEnded says what ended a process that is dying or dead.
func (t *talk) howEnded() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	switch e, err := t.p.Wait(ctx); {
	case err != nil: // it closed its channel, and lives
		return ""
	case e.OutOfMemory:
		return ": it was ended for the memory limit"
	case e.Signal != 0:
		return fmt.Sprintf(": ended by %v", e.Signal)
	default:
		return fmt.Sprintf(": exit status %d", e.Code)
	}
}

// call asks one question and reads the answer.
func (t *talk) call(ctx context.Context, question []byte) (outcome, error) {
	data, err := t.ask(ctx, question)
	if err != nil {
		return outcome{}, t.lost(err)
	}
	return outcomeOf(data)
}

// outcomeOf reads a driver's answer. Whatever it is, it is only data.
func outcomeOf(data []byte) (outcome, error) {
	v, err := Decode(data)
	if err != nil {
		return outcome{}, &fault{report.KindAssertion, "the answer is not plain data: " + err.Error()}
	}
	if v.Kind == Dict && len(v.Items) == 2 {
		switch v.Items[0].S {
		case "value":
			return outcome{value: v.Items[1]}, nil
		case "raised":
			r, err := raisedOf(v.Items[1])
			return outcome{raised: r}, err
		case "refused":
			return outcome{}, &fault{report.KindAssertion, "the answer is not plain data: " + shorten(v.Items[1].S, keptOutput)}
		case "schema":
			return outcome{}, &fault{report.KindException, "the schema: " + v.Items[1].String()}
		case "broken":
			return outcome{}, loaded(data)
		}
	}
	return outcome{}, &fault{report.KindAssertion, "not an answer: " + v.String()}
}

func raisedOf(v Value) (*raised, error) {
	bad := &fault{report.KindException, "an exception that cannot be read"}
	f, err := object(v, "an exception")
	if err != nil {
		return nil, bad
	}
	r := &raised{types: f.strs("types"), message: f.str("message")}
	if f.err != nil || len(r.types) == 0 {
		return nil, bad
	}
	return r, nil
}

// question is a call as a driver reads it. Nothing of what is expected is in it.
func (c *Call) question() []byte {
	b := quote([]byte(`{"func":`), c.Func)
	b = list(c.Args...).append(append(b, `,"args":`...))
	if c.Kwargs.Kind == Dict {
		b = c.Kwargs.append(append(b, `,"kwargs":`...))
	}
	return append(b, '}')
}
