package program

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"assay/internal/grade/program/drivers"
)

// expected are the outcomes of a reference's calls, by the ids of their cases.
type expected map[string][]outcome

// refError is a fault of the group's reference.
type refError struct{ err error }

func (e *refError) Error() string { return "the reference: " + e.err.Error() }
func (e *refError) Unwrap() error { return e.err }

// needs reports whether a case asks the reference.
func (c *Case) needs(call string) bool {
	if call == drivers.SQL {
		return c.Table == nil
	}
	for i := range c.Calls {
		if c.Calls[i].Want.Kind == Invalid && c.Calls[i].Raises == nil {
			return true
		}
	}
	return false
}

// referenceTime is the least that a reference gets for a case: what it may take
// says nothing about the candidate.
const referenceTime = time.Minute

// expect asks the reference what no case says, in a sandbox without the
// candidate; what it said once is kept in the cache.
func (r *Request) expect(ctx context.Context) (expected, error) {
	var asked []*Case
	for i := range r.Suite.Cases {
		if c := &r.Suite.Cases[i]; c.needs(r.Suite.Group.Call) {
			asked = append(asked, c)
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	if r.Pristine == nil {
		return nil, errors.New("there is a reference, and no sandbox without the candidate to run it in")
	}
	name := r.cacheName(asked)
	if want, ok := readExpected(name, asked); ok {
		return want, nil
	}
	s, err := r.newStand(ctx, r.Pristine, r.Suite.Reference)
	if err != nil {
		return nil, err
	}
	defer s.sb.Close()
	if s.broken != "" {
		return nil, &refError{errors.New(s.broken)}
	}
	want := expected{}
	for _, c := range asked {
		if want[c.ID], err = s.ask(ctx, c); err != nil {
			return nil, err
		}
	}
	return want, writeExpected(name, asked, want)
}

// ask runs one case on the reference.
func (s *stand) ask(ctx context.Context, c *Case) ([]outcome, error) {
	limited, cancel := context.WithTimeout(ctx, max(c.Timeout, referenceTime))
	defer cancel()
	var all []outcome
	var err error
	if s.r.Suite.Group.Call == drivers.SQL {
		var one outcome
		if one, err = s.table(limited, c, string(s.r.Suite.Reference)); err == nil {
			if one.raised != nil {
				err = &fault{why: one.raised.String()}
			} else if _, bad := tableOf(one.value); bad != nil {
				err = &fault{why: bad.Error()}
			}
		}
		all = []outcome{one}
	} else {
		err = s.converse(limited, c.Calls, func(o outcome) error { all = append(all, o); return nil })
	}
	var f *fault
	var not *notStarted
	switch {
	case err == nil:
		return all, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil, errors.As(err, &f), errors.As(err, &not):
		return nil, &refError{fmt.Errorf("%s: %w", c.ID, err)}
	}
	return nil, err
}

// cacheName is the file of what the reference says: its name digests everything
// that the answers depend on.
func (r *Request) cacheName(asked []*Case) string {
	if r.Cache == "" {
		return ""
	}
	sum := sha256.New()
	add := func(parts ...[]byte) {
		for _, p := range parts {
			sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
			sum.Write(p)
		}
	}
	add([]byte("expected 1"), []byte(r.Image), []byte(r.Suite.Group.Call), []byte(r.Suite.Group.Source), []byte(r.Suite.Group.Dir), r.Suite.Reference)
	for _, c := range asked {
		add([]byte(c.ID), []byte(c.Schema), []byte(c.After))
		for i := range c.Calls {
			add(c.Calls[i].question())
		}
	}
	return filepath.Join(string(r.Cache), hex.EncodeToString(sum.Sum(nil))+".json")
}

// readExpected reads a cached answer. Whatever is wrong with it, the reference
// can be asked again.
func readExpected(name string, asked []*Case) (expected, bool) {
	if name == "" {
		return nil, false
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, false
	}
	want := expected{}
	for _, c := range asked {
		n := max(1, len(c.Calls))
		for range n {
			i := indexLine(data)
			if i < 0 {
				return nil, false
			}
			o, err := outcomeOf(data[:i])
			if err != nil {
				return nil, false
			}
			data = data[i+1:]
			want[c.ID] = append(want[c.ID], o)
		}
	}
	return want, len(data) == 0
}

func indexLine(data []byte) int {
	for i, c := range data {
		if c == '\n' {
			return i
		}
	}
	return -1
}

func writeExpected(name string, asked []*Case, want expected) error {
	if name == "" {
		return nil
	}
	var b []byte
	for _, c := range asked {
		for _, o := range want[c.ID] {
			b = append(o.append(b), '\n')
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".expected-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// append writes an outcome as a driver does.
func (o outcome) append(b []byte) []byte {
	if o.raised == nil {
		return append(o.value.append(append(b, `{"value":`...)), '}')
	}
	types := list()
	for _, n := range o.raised.types {
		types.Items = append(types.Items, text(n))
	}
	b = types.append(append(b, `{"raised":{"types":`...))
	return append(quote(append(b, `,"message":`...), o.raised.message), "}}"...)
}
