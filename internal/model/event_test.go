package model_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"assay/internal/model"
)

func read(r io.Reader, max int) ([]model.Event, error) {
	var all []model.Event
	er := model.NewEventReader(r, max)
	for {
		e, err := er.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}

func TestEventReader(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string // name=data
	}{
		{"data: a\n\ndata: b\n\n", []string{"=a", "=b"}},
		{"\xef\xbb\xbfevent: x\r\ndata:a\r\n\r\n", []string{"x=a"}},
		{"event: x\rdata: a\rdata: b\r\rdata: c\r\r", []string{"x=a\nb", "=c"}},
		{": ping\n\nevent: lonely\n\ndata\n\n", []string{"="}},
		{"data:  two spaces\nid: 7\nretry: 9\nunknown: z\n\n", []string{"= two spaces"}},
		{"data: complete line\n", []string{"=complete line"}},
		{"data: cut li", nil},
		{"data: a\n\ndata: {\"x\":", []string{"=a"}},
		{"\n\n\n", nil},
		{"", nil},
	} {
		for name, r := range map[string]io.Reader{
			"at once": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in)),
		} {
			events, err := read(r, 0)
			var got []string
			for _, e := range events {
				got = append(got, e.Name+"="+string(e.Data))
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q %s: %q %v, want %q", c.in, name, got, err, c.want)
			}
		}
	}
}

// An event is there as soon as its last line ended, CR or LF.
func TestEventReaderDoesNotWait(t *testing.T) {
	for _, in := range []string{"data: a\r\r", "data: a\n\n", "data: a\r\n\r\n", "data: a\r\n\r"} {
		pr, pw := io.Pipe()
		go func() {
			_, _ = pw.Write([]byte(in)) // and no more, and no end
		}()
		e, err := model.NewEventReader(pr, 0).Next()
		if err != nil || string(e.Data) != "a" {
			t.Errorf("%q: %+v %v", in, e, err)
		}
		_ = pr.Close()
	}
}

func TestEventSizeIsBounded(t *testing.T) {
	line := strings.Repeat("x", 600)
	for _, in := range []string{
		"data: " + strings.Repeat(line, 4), ": " + strings.Repeat(line, 4),
		"data: " + line + "\ndata: " + line + "\n\n", "event: " + strings.Repeat(line, 2) + "\n\n",
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			if _, err := read(r, 1000); !errors.Is(err, model.ErrEventSize) && !(strings.HasPrefix(in, "event") && err == nil) {
				t.Errorf("%.20q: %v", in, err)
			}
		}
	}
	endless := io.MultiReader(strings.NewReader("data: "), neverEnds{})
	if _, err := read(endless, 0); !errors.Is(err, model.ErrEventSize) {
		t.Errorf("an endless line: %v", err)
	}
}

type neverEnds struct{}

func (neverEnds) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func FuzzEventReader(f *testing.F) {
	f.Add([]byte("event: a\r\ndata: x\ndata: y\n\n"), 3)
	f.Fuzz(func(t *testing.T, b []byte, chunk int) {
		whole, err1 := read(bytes.NewReader(b), 1<<10)
		byBytes, err2 := read(iotest.OneByteReader(bytes.NewReader(b)), 1<<10)
		if (err1 == nil) != (err2 == nil) {
			t.Skip("a limit is met at another byte")
		}
		var w1, w2 []byte
		for _, e := range whole {
			w1 = e.Append(w1)
		}
		for _, e := range byBytes {
			w2 = e.Append(w2)
		}
		if err1 == nil && !bytes.Equal(w1, w2) {
			t.Errorf("%q and %q", w1, w2)
		}
		again, err := read(bytes.NewReader(w1), 1<<20)
		if err != nil || len(again) != len(whole) {
			t.Errorf("written and read again: %d of %d events, %v", len(again), len(whole), err)
		}
	})
}
