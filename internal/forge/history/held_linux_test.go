package history

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/job"
	"assay/task"
)

// needle is a piece of a solution that nothing of a task may hold: lines that
// gold adds, with those around them.
type needle struct {
	file string // that gold makes
	text []byte
}

// around is how many lines of context a needle has on each side: a line alone
// can be in any program by accident.
const around = 2

// needles are the pieces of what gold makes of a file.
func needles(name string, was, gold []byte) []needle {
	if bytes.Equal(was, gold) {
		return nil
	}
	all := []needle{{name, gold}}
	left := balance(was, gold)
	lines := bytes.SplitAfter(gold, []byte("\n"))
	for i := 0; i < len(lines); {
		fresh := func(i int) bool {
			k := string(bytes.TrimRight(lines[i], "\r\n"))
			return left[k] > 0 && strings.TrimSpace(k) != ""
		}
		if !fresh(i) {
			i++
			continue
		}
		from := i
		for i < len(lines) && fresh(i) {
			i++
		}
		if text := bytes.Join(lines[max(0, from-around):min(len(lines), i+around)], nil); len(bytes.TrimSpace(text)) >= 40 && !bytes.Contains(was, text) {
			all = append(all, needle{name, text})
		}
	}
	return all
}

// haystack finds needles in an image's files and in every object of git in it.
type haystack struct {
	t       *testing.T
	needles []needle
	by      map[string][]int // the line by which a needle is known
	known   map[string][]int // by digest: which needles it holds
	objects int              // of git, read
}

const maxHay = 64 << 20 // bytes of a file, and of what is packed in it

// line is the longest one of a needle, of those inside where there are any.
func (n needle) line() string {
	lines := bytes.Split(bytes.TrimRight(n.text, "\n"), []byte("\n"))
	if len(lines) > 2 {
		lines = lines[1 : len(lines)-1]
	}
	return string(slices.MaxFunc(lines, func(a, b []byte) int { return len(a) - len(b) }))
}

func (h *haystack) in(b []byte) (found []int) {
	if h.by == nil {
		h.by = map[string][]int{}
		for i, n := range h.needles {
			h.by[n.line()] = append(h.by[n.line()], i)
		}
	}
	tried := map[int]bool{}
	for l := range bytes.SplitSeq(b, []byte("\n")) {
		for _, i := range h.by[string(l)] {
			if !tried[i] {
				tried[i] = true
				if bytes.Contains(b, h.needles[i].text) {
					found = append(found, i)
				}
			}
		}
	}
	return found
}

var (
	loose = regexp.MustCompile(`(^|/)objects/[0-9a-f]{2}/[0-9a-f]{38}$`)
	pack  = regexp.MustCompile(`(^|/)objects/pack/[^/]*\.pack$`)
)

// look gives, by path, the needles of a merged view.
func (h *haystack) look(v *image.View) map[string][]int {
	h.t.Helper()
	at := map[string][]int{}
	err := v.Walk(".", func(e image.Entry) error {
		if e.Type != image.TypeFile || e.Size > maxHay {
			return nil
		}
		found, ok := h.known[e.Digest]
		if !ok {
			b, err := v.ReadFile(e.Path, maxHay)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if found, err = h.file(e.Path, b); err != nil {
				return fmt.Errorf("%s: %w", e.Path, err)
			}
			h.known[e.Digest] = found
		}
		if len(found) > 0 {
			at[e.Path] = found
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return at
}

// file is what a file holds, as it lies there and as it is unpacked.
func (h *haystack) file(name string, b []byte) ([]int, error) {
	found := h.in(b)
	add := func(r io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(r, maxHay))
		found = append(found, h.in(b)...)
		return err
	}
	switch {
	case loose.MatchString(name):
		h.objects++
		r, err := zlib.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return found, add(r)
	case pack.MatchString(name):
		objects, err := h.packed(b)
		return append(found, objects...), err
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		if r, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
			_ = add(r) // a broken one holds what it holds
		}
	case bytes.HasPrefix(b, []byte("PK\x03\x04")):
		z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return found, nil
		}
		for _, f := range z.File {
			if r, err := f.Open(); err == nil {
				_ = add(r)
				r.Close()
			}
		}
	}
	return found, nil
}

// packed asks git for every object of a pack.
func (h *haystack) packed(b []byte) ([]int, error) {
	dir := h.t.TempDir()
	gitOut(h.t, dir, "init", "-q", "--bare", ".")
	file := filepath.Join(dir, "objects", "pack", "pack-of-the-image.pack")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return nil, err
	}
	gitOut(h.t, dir, "index-pack", file)
	cmd := exec.Command("git", "cat-file", "--batch-all-objects", "--batch")
	cmd.Dir = dir
	out, err := cmd.Output()
	h.objects += bytes.Count(out, []byte(" blob "))
	return h.in(out), err
}

// goldFiles are the files that a task's solution makes: its script, run on the
// changed files of the image in a directory of their own.
func goldFiles(t *testing.T, x *task.Task, v *image.View) map[string][]byte {
	t.Helper()
	facts, _ := x.Config.Metadata.Assay.Rest["forge"].(map[string]any)
	changed, _ := facts["changed"].([]any)
	b, err := os.ReadFile(filepath.Join(x.Dir, "solution", "solve.sh"))
	if err != nil {
		t.Fatal(err)
	}
	root, script := t.TempDir(), string(b)+"\n"
	for _, c := range changed {
		name := c.(string)
		if err := os.MkdirAll(filepath.Join(root, path.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		was, err := v.ReadFile(name, maxHay)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), was, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		script = strings.ReplaceAll(script, " "+name, " "+root+name)
	}
	script = strings.ReplaceAll(script, " -C /\n", " -C "+root+"\n")
	cmd := exec.Command("sh", "-c", script, filepath.Join(x.Dir, "solution", "solve.sh"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: its solution: %v: %s", x.Dir, err, out)
	}
	all := map[string][]byte{}
	for _, c := range changed {
		gold, err := os.ReadFile(filepath.Join(root, c.(string)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it only removes
		}
		if err != nil {
			t.Fatal(err)
		}
		all[c.(string)] = gold
	}
	return all
}

// holdsNothing opens the image of every task of a set, all its layers merged and
// every object of git decoded, and looks for what its gold makes. It gives back
// how many tasks and objects it looked at.
func holdsNothing(t *testing.T, set string, images *image.Store, build func(context.Context, string) (image.Image, error), healthy *image.View) (tasks, objects int) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(set, "*", "task.toml"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no tasks in %s: %v", set, err)
	}
	h := &haystack{t: t, known: map[string][]int{}}
	views, mine := map[string]*image.View{}, map[string][2]int{}
	for _, d := range dirs {
		dir := filepath.Dir(d)
		x, err := task.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		im, err := build(t.Context(), x.ImageDir())
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		v, err := images.View(im.Layers)
		if err != nil {
			t.Fatal(err)
		}
		from := len(h.needles)
		for name, gold := range goldFiles(t, x, v) {
			was, err := v.ReadFile(name, maxHay)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			h.needles = append(h.needles, needles(name, was, gold)...)
		}
		if len(h.needles) == from {
			t.Logf("%s: its gold adds nothing that could be looked for", dir)
			continue
		}
		views[dir], mine[dir] = v, [2]int{from, len(h.needles)}
	}
	for dir, v := range views {
		tasks++
		told := 0
		for p, found := range h.look(v) {
			for _, i := range found {
				if i >= mine[dir][0] && i < mine[dir][1] && told < 3 {
					told++
					t.Errorf("%s: /%s holds what gold makes of %s:\n%s", dir, p, h.needles[i].file, h.needles[i].text[:min(400, len(h.needles[i].text))])
				}
			}
		}
	}
	// The healthy image holds the gold of what was taken out of it, as a file and as an object: what is looked for can be found.
	if at := h.look(healthy); healthy != nil && len(at) < 2 {
		t.Errorf("nothing is found in the healthy image either: %v", at)
	}
	return tasks, h.objects
}

// buildOf is how a task's image is made where a Docker engine would.
func buildOf(deps job.Deps) func(context.Context, string) (image.Image, error) {
	return func(ctx context.Context, dir string) (image.Image, error) {
		return deps.Build(ctx, job.BuildRequest{Dir: dir, Resolve: deps.Resolve})
	}
}
