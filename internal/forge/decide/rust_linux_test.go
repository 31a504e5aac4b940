package decide

import (
	"strings"
	"testing"
	"time"
)

func TestRust(t *testing.T) {
	w := project(t, "testdata/rust", "ENV PATH=/usr/bin:/bin CARGO_NET_OFFLINE=true\nRUN cargo test -q --no-run",
		suiteCommand("unit", "cargo test --no-fail-fast 2>&1", "cargo-test"), "/usr/bin/cargo", "/usr/bin/cc")
	changes := []Change{
		w.swap("add", "src/lib.rs", "    a + b", "    a - b"),
		w.swap("borrow", "src/lib.rs", "    s.chars().next()", "    let c = s.chars(); drop(c); c.last()"),
		w.swap("clamp", "src/lib.rs", "n > LIMIT", "n >= LIMIT"),
		w.swap("const", "src/lib.rs", "LIMIT: i64 = 10", "LIMIT: i64 = 11"),
		w.swap("crash", "src/lib.rs", "        return LIMIT;", "        std::process::abort();"),
		w.swap("doc", "src/lib.rs", "    s.chars().next()", "    s.chars().rev().next()"),
		w.swap("type", "src/lib.rs", "    n * 2", "    \"2\""),
		w.swap("unused", "src/lib.rs", "    n * 2", "    n * 3"),
	}
	got := w.decide(Config{Floor: time.Minute}, changes...)
	const want = "add killed\nborrow unviable\nclamp survived\nconst killed\ncrash killed\ndoc killed\ntype unviable\nunused survived"
	if classes(got) != want {
		t.Errorf("%s", classes(got))
		for _, v := range got {
			t.Logf("%+v", v)
		}
	}
	if v := got["doc"]; len(v.Failed) != 1 {
		t.Errorf("%+v", v)
	}
}

// Where bodies begin and end is told in spite of what looks like braces.
func TestRustBodies(t *testing.T) {
	src := `fn a() -> char { '{' } // }
fn b<'a>(s: &'a str) -> [u8; 3] { r#"}"}"#; /* } /* } */ } */ [b'}', b'\'', 0] }
trait T { fn d(&self); fn e(&self) { } }
const fn c() -> u8 { 1 }
macro_rules! m { () => { fn x() { } } }
#[cfg(test)]
mod tests { fn y() { } }
fn outer() { fn inner() {} }
`
	bodies, err := rustBodies([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range bodies {
		text := src[b.start:b.end]
		if b.labels {
			text = "left out"
		}
		got = append(got, text)
	}
	want := []string{"{ '{' }", `{ r#"}"}"#; /* } /* } */ } */ [b'}', b'\'', 0] }`, "{ }", "left out", "{ fn inner() {} }"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q", got)
	}
}

func FuzzRustBodies(f *testing.F) {
	f.Add([]byte("fn a() { '{' }"))
	f.Add([]byte("r#\"x\"# /* /* */ fn x<'a>() -> [u8; {1}] {}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		bodies, err := rustBodies(src)
		if err != nil {
			return
		}
		at := 0
		for _, b := range bodies {
			if b.start < at || b.end <= b.start || b.end > len(src) || src[b.start] != '{' || src[b.end-1] != '}' {
				t.Fatalf("%+v", b)
			}
			at = b.end
		}
	})
}
