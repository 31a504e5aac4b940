package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Wherever a key stands, across the pieces that are read too, it is gone, and
// every other byte is where it was.
func TestScrubFile(t *testing.T) {
	const key = "real-looking-key-0123456789"
	for _, at := range []int{0, 1, 1<<20 - len(key), 1<<20 - 1, 1 << 20, 1<<20 + 1, 2<<20 - 13, 3 << 20} {
		text := bytes.Repeat([]byte("x"), 3<<20+len(key))
		copy(text[at:], key)
		copy(text[at/2:], key)
		name := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := ScrubFile(f, key); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.ReplaceAll(text, []byte(key), []byte(masked(key)))
		if !bytes.Equal(got, want) || bytes.Contains(got, []byte(key)) {
			t.Errorf("at %d: the key is still there, or another byte changed", at)
		}
	}
}

func TestScrubText(t *testing.T) {
	for _, c := range [][3]string{
		{"a key b key", "key", "a *** b ***"},
		{"nothing", "", "nothing"},
		{"k=" + strings.Repeat("s", 20), strings.Repeat("s", 20), "k=[key-removed]*******"},
	} {
		if got := ScrubText(c[0], c[1]); got != c[2] {
			t.Errorf("%q without %q is %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
