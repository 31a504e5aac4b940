package web

import (
	"strings"
	"testing"
	"time"
)

func TestParseDiff(t *testing.T) {
	files := parseDiff(fixtureDiff)
	if len(files) != 2 {
		t.Fatalf("%d files", len(files))
	}
	if f := files[0]; f.Name != "timeparse.py" || f.Added != 1 || f.Removed != 3 {
		t.Errorf("first: %s +%d -%d", f.Name, f.Added, f.Removed)
	}
	if f := files[1]; f.Name != "NOTES.md" || f.Added != 2 || f.Removed != 0 {
		t.Errorf("second: %s +%d -%d", f.Name, f.Added, f.Removed)
	}
}

// A removed line "-- x" looks like a header and an added "++ y" like another.
func TestParseDiffTrustsHunkSizes(t *testing.T) {
	files := parseDiff("--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- x\n-b\n+++ y\n+d\n--- a/r\n+++ b/r\n@@ -1 +1 @@\n-1\n+2\n\\ No newline at end of file\n")
	if len(files) != 2 || files[0].Name != "q.sql" || files[0].Removed != 2 || files[0].Added != 2 || files[1].Name != "r" {
		t.Errorf("%+v", files)
	}
}

func TestParseDiffOfOneLongRunIsQuick(t *testing.T) {
	s := "--- a\n+++ b\n@@ -0,0 +1,500000 @@\n" + strings.Repeat("+\n", 500_000)
	begin := time.Now()
	files := parseDiff(s)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("1 MB of diff took %v", took)
	}
	if len(files) != 1 || files[0].Added != 500_000 || len(files[0].Runs) != 3 {
		t.Errorf("%d files", len(files))
	}
}

func FuzzParseDiff(f *testing.F) {
	for _, s := range []string{fixtureDiff, "", "\n", "@@ -1 +1 @@\n+a", "diff --git a/x b/y\nBinary files differ\n", "+++ \n--- \n@@ -9999999999999999999,1 +1 @@\n-\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var all strings.Builder
		for _, file := range parseDiff(s) {
			for _, r := range file.Runs {
				all.WriteString(r.Text)
			}
		}
		if all.String() != s {
			t.Fatalf("%q became %q: a line is lost or moved", s, all.String())
		}
	})
}
