package forge

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The line of a splice makes the very bytes, the mode and the time.
func TestSpliceLine(t *testing.T) {
	const head, tail = "first\n\xff\n", "last line without an end"
	for _, old := range []string{"", "gone 'it'\n"} {
		for _, text := range []string{"", "-x %s \\n \\\\ 'q' \"d\" $HOME `id`\n\ttab\r\né\n", "-", "\n\n"} {
			for _, ends := range [][2]string{{head, tail}, {"", tail}, {head, ""}, {"", ""}} {
				name := filepath.Join(t.TempDir(), "it's")
				was := ends[0] + old + ends[1]
				if err := os.WriteFile(name, []byte(was), 0o640); err != nil {
					t.Fatal(err)
				}
				s := splice{path: name, head: len(ends[0]), tail: len(was) - len(ends[1]), size: len(was), text: []byte(text), edit: Edit{Time: 1_500_000_000, Nanos: 5_000_000}}
				if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", s.line(true)).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", s.line(true), err, out)
				}
				b, err := os.ReadFile(name)
				if want := ends[0] + text + ends[1]; err != nil || string(b) != want {
					t.Errorf("%s\ngives %q, want %q; %v", s.line(true), b, want, err)
				}
				fi, err := os.Stat(name)
				if err != nil || fi.Mode().Perm() != 0o640 || !fi.ModTime().Equal(time.Unix(1_500_000_000, 5_000_000)) {
					t.Errorf("%v %v %v", fi.Mode(), fi.ModTime(), err)
				}
			}
		}
	}
}
