package forge

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/job"
)

// opened is a forge on the world's environment that has looked at nothing yet.
func (w *world) opened(cfg Config) *forge {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Join(cfg.Dir, Home), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, Home, "healthy-test.json"), []byte(`["unit:test_calc.Calc.test_total"]`), 0o644); err != nil {
		w.t.Fatal(err)
	}
	f, err := open(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(f.close)
	return f
}

// What a task's Dockerfile builds is the broken state, byte for byte: content,
// modes, owners, links, attributes, times, and nothing that was removed.
func TestDockerfileBuildsTheBrokenState(t *testing.T) {
	w := newWorld(t)
	f := w.opened(w.config())
	for _, g := range []*hand{bugs(t), faults(t), shapes()} {
		for _, c := range g.all(f.world(g.name)) {
			c.Generator = g.name
			a, err := f.work(t.Context(), c)
			var no *rejected
			if errors.As(err, &no) {
				if g.name == "shapes" {
					t.Error(err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := f.bare(a); err != nil {
				t.Fatal(err)
			}
			if df, err := os.ReadFile(filepath.Join(a.t.ImageDir(), "Dockerfile")); err != nil || strings.Contains(string(df), "tail -c") != (c.Name == "spliced") || strings.Contains(string(df), "head -c") != (c.Name == "spliced" || c.Name == "cut") {
				t.Errorf("%s: %v\n%s", c.Name, err, df)
			}
			im, err := w.deps.Build(t.Context(), job.BuildRequest{Dir: a.t.ImageDir(), Resolve: w.deps.Resolve})
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			built, err := w.images.View(im.Layers)
			if err != nil {
				t.Fatal(err)
			}
			bad, err := Differ(a.state, built, []string{"app", "opt", "etc", "var"}, true, 10)
			if err != nil || len(bad) > 0 {
				t.Errorf("%s: not the same: %q, %v", c.Name, bad, err)
			}
		}
	}
}

// shapes are deltas of every kind.
func shapes() *hand {
	big := make([]byte, 3*smallCopy)
	return &hand{name: "shapes", all: func(w *World) []Candidate {
		moved, err := CopyTree(w.Tree, "/app/tests", "/opt/elsewhere/tests")
		if err != nil {
			panic(err)
		}
		file, dir, link := image.TypeFile, image.TypeDir, image.TypeSymlink
		table, err := w.Tree.ReadFile("/app/table.txt", 1<<20)
		if err != nil {
			panic(err)
		}
		text := strings.Replace(string(table), "the one in the middle", "-- 100% \\n 'it'\n\"é\"", 1)
		// A file of some size that becomes a directory with itself inside.
		inside, err := CopyTree(w.Tree, largeFile(w.Tree), largeFile(w.Tree)+"/inside")
		if err != nil {
			panic(err)
		}
		inside = append(Delta{{Path: largeFile(w.Tree), Type: dir, Mode: 0o755}}, inside...)
		var out []Candidate
		for name, d := range map[string]Delta{
			"inside":  inside,
			"moved":   append(moved, Edit{Path: "/app/tests"}),
			"swapped": {{Path: "/app/tests", Type: file, Mode: 0o600}, {Path: "/app/README", Type: dir, Mode: 0o700}, {Path: "/app/README/in", Type: file, Mode: 0o640, UID: 0, Data: []byte("x")}},
			"links":   {{Path: "/app/calc.py", Type: link, Link: "config.py"}, {Path: "/app/loop", Type: link, Link: "loop"}, {Path: "/etc/new.d", Type: link, Link: "/nowhere"}},
			"modes":   {{Path: "/app/calc.py", Type: file, Mode: 0o4511, From: "/app/calc.py"}, {Path: "/app/tests", Type: dir, Mode: 0o500}},
			"large":   {{Path: "/var/x/y/large", Type: file, Mode: 0o644, Data: big, Time: 1_500_000_000, Nanos: 5_000_000}},
			"quoted":  {{Path: "/app/it's $HOME;x", Type: file, Mode: 0o644, Xattrs: map[string][]byte{"user.note": []byte("a\x00b")}}, {Path: "/app/README"}},
			"spliced": {{Path: "/app/table.txt", Type: file, Mode: 0o644, Data: []byte(text)}},
			"cut":     {{Path: "/app/table.txt", Type: file, Mode: 0o644, Data: []byte(text[:5000])}, {Path: "/app/README"}},
			"pipe":    {{Path: "/app/README", Type: image.TypeFIFO, Mode: 0o600}},
		} {
			out = append(out, Candidate{Name: name, Grade: GradeState, Broken: d})
		}
		return out
	}}
}

// largeFile is one that a delta rather copies than packs.
func largeFile(v *image.View) (at string) {
	_ = v.Walk("/etc", func(e image.Entry) error {
		if at == "" && e.Type == image.TypeFile && e.Size >= smallCopy && e.Size < 16*smallCopy && e.Mode&0o444 == 0o444 {
			at = "/" + e.Path
		}
		return nil
	})
	return at
}
