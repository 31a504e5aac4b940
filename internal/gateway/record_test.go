package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded writes bodies as one session would and opens the record.
func recorded(t testing.TB, array string, bodies ...[]byte) *Record {
	t.Helper()
	dir := t.TempDir()
	enc, err := newEncoder()
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	r, err := newRecorder(dir, enc)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range bodies {
		all, _ := object(b)
		r.request(i+1, b, all, array)
		r.call(Call{V: CallVersion, Seq: i + 1}, nil)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	rec, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	return rec
}

func awkward() [][]byte {
	var all [][]byte
	for _, s := range []string{
		``, `{`, `null`, `[1,2]`, `{}`, `{"messages":[]}`, `{"messages":[ ]}`, `{"messages":{"a":1}}`, ` { "messages" : [ 1 ] } `,
		`{"messages":[{"a":"]},{\""},{"b":[{}]}],"tools":[]}`, `{"messages":"text","x":"\u005b"}`,
		"{\n\t\"messages\": [\n{\"role\":\"user\"}  ,\n{\"role\":\"assistant\"}\n ]\n}\n",
		`{"messages":[1,2],"Messages":[3]}`, `{"m\u0065ssages":[1,2,3]}`, `{"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`,
		`{"big":"` + strings.Repeat("é", 500) + `","messages":[{"content":"` + strings.Repeat("z", 4000) + `"},-1.5e9,true,null]}`,
	} {
		all = append(all, []byte(s))
	}
	return all
}

func TestBodiesComeBackByteForByte(t *testing.T) {
	bodies := awkward()
	rec := recorded(t, "messages", append(bodies, bodies...)...)
	for i := range len(bodies) * 2 {
		got, _, err := rec.Raw(i + 1)
		if want := bodies[i%len(bodies)]; err != nil || !bytes.Equal(got, want) {
			t.Errorf("body %d: %q, %v; want %q", i, got, err, want)
		}
	}
	if _, _, err := rec.Raw(999); !errors.Is(err, ErrNoRecord) {
		t.Errorf("a call that never was: %v", err)
	}
}

func FuzzBodies(f *testing.F) {
	for _, b := range awkward() {
		f.Add(b, []byte("x"))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		rec := recorded(t, "messages", a, b, a)
		for i, want := range [][]byte{a, b, a} {
			got, _, err := rec.Raw(i + 1)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("body %d: %q, %v; want %q", i, got, err, want)
			}
		}
	})
}

// turn is the n-th request of a conversation: everything before it again, and
// text of its own.
func turn(n int, text func(i int) string) []byte {
	var msgs []map[string]any
	for i := range n {
		msgs = append(msgs, map[string]any{"role": []string{"user", "assistant"}[i%2], "content": text(i)})
	}
	b, _ := json.Marshal(map[string]any{"model": "m", "messages": msgs, "tools": []string{strings.Repeat("tool ", 2000)}, "seed": n})
	return b
}

// incompressible text, so that the pack's size tells what was stored.
func noise(i int) string {
	var b strings.Builder
	for x := uint64(i)*2654435761 + 88172645463325252; b.Len() < 1000; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		fmt.Fprintf(&b, "%016x", x)
	}
	return b.String()
}

// What is stored grows with what is new, references included.
func TestStoredSizeIsLinear(t *testing.T) {
	size := func(turns int) int64 {
		var bodies [][]byte
		for n := 1; n <= turns; n++ {
			bodies = append(bodies, turn(n, noise))
		}
		rec := recorded(t, "messages", bodies...)
		st, err := rec.pack.f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := rec.Raw(turns); err != nil || !bytes.Equal(got, bodies[turns-1]) {
			t.Fatalf("the last body: %v", err)
		}
		return st.Size()
	}
	a, b, c := size(25), size(50), size(100)
	if first, second := b-a, c-b; float64(second) > 2.1*float64(first) {
		t.Errorf("25 turns more cost %d bytes, 50 more %d", first, second)
	}
	if per := (c - b) / 50; per > 1300 {
		t.Errorf("a turn of 1,000 bytes of hexadecimal noise costs %d", per)
	}
	t.Logf("bytes for 25, 50 and 100 turns: %d %d %d", a, b, c)
}

// A process that dies leaves the beginning of what it was writing.
func TestTornRecordIsRead(t *testing.T) {
	dir := t.TempDir()
	enc, _ := newEncoder()
	defer enc.Close()
	r, err := newRecorder(dir, enc)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 3; i++ {
		all, _ := object(turn(i, noise))
		r.request(i, turn(i, noise), all, "messages")
		r.call(Call{V: CallVersion, Seq: i}, nil)
		ans := r.answer(i)
		ans.add([]byte("answer"))
		ans.flush()
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	whole := map[string][]byte{}
	for _, name := range []string{callsName, packName} {
		if whole[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{callsName, packName} {
		for cut := 0; cut < len(whole[name]); cut += 1 + cut/16 {
			torn := t.TempDir()
			for n, b := range whole {
				if n == name {
					b = b[:cut]
				}
				if err := os.WriteFile(filepath.Join(torn, n), b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			rec, err := Read(torn)
			if err != nil {
				t.Fatalf("%s cut at %d: %v", name, cut, err)
			}
			for _, c := range rec.Calls() {
				if b, _, err := rec.Raw(c.Seq); err == nil && !bytes.Equal(b, turn(c.Seq, noise)) {
					t.Errorf("%s cut at %d: call %d has another body", name, cut, c.Seq)
				}
			}
			if name == callsName && len(rec.Unfinished())+len(rec.Calls()) != 3 {
				t.Errorf("cut at %d: %d ended, %v did not", cut, len(rec.Calls()), rec.Unfinished())
			}
			rec.Close()
		}
	}
}

func FuzzPack(f *testing.F) {
	dir := f.TempDir()
	enc, _ := newEncoder()
	r, err := newRecorder(dir, enc)
	if err != nil {
		f.Fatal(err)
	}
	for i := 1; i <= 3; i++ {
		all, _ := object(turn(i, noise))
		r.request(i, turn(i, noise), all, "messages")
	}
	r.close()
	seed, _ := os.ReadFile(filepath.Join(dir, packName))
	f.Add(seed, []byte("{\"v\":1,\"seq\":1}\n"))
	f.Add([]byte(packMagic), []byte("{\"v\":9}\n"))
	f.Fuzz(func(t *testing.T, pack, calls []byte) {
		dir := t.TempDir()
		_ = os.WriteFile(filepath.Join(dir, packName), pack, 0o644)
		_ = os.WriteFile(filepath.Join(dir, callsName), calls, 0o644)
		rec, err := Read(dir)
		if err != nil {
			return
		}
		defer rec.Close()
		for _, seq := range append(rec.Unfinished(), 1, 2, 3) {
			_, _, _ = rec.Raw(seq) // an error is an answer
		}
	})
}

// The record is in a directory that agents' files are put beside.
func TestRecordFollowsNoLink(t *testing.T) {
	for _, name := range []string{callsName, packName} {
		dir := t.TempDir()
		for _, n := range []string{callsName, packName} {
			if n == name {
				if err := os.Symlink("/etc/passwd", filepath.Join(dir, n)); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(filepath.Join(dir, n), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if rec, err := Read(dir); err == nil {
			rec.Close()
			t.Errorf("%s is a link and was read", name)
		}
	}
}
