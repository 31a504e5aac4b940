package importer

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func dir(name string, files ...string) Dir {
	d := Dir{Name: name}
	for i := 0; i < len(files); i += 2 {
		d.Files = append(d.Files, File{Path: files[i], Data: []byte(files[i+1]), Exec: strings.HasSuffix(files[i], ".sh")})
	}
	return d
}

func two() []Dir {
	return []Dir{dir("a", "task.toml", "x", "tests/test.sh", "#!/bin/sh\n"), dir("b", "task.toml", "y")}
}

func write(t *testing.T, out string, dirs []Dir, opts Options) Summary {
	t.Helper()
	sum, err := WriteAll(context.Background(), out, dirs, opts)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree lists all below dir: names, modes of files, contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		data, _ := os.ReadFile(p)
		fmt.Fprintf(&all, "%s %v %q\n", filepath.ToSlash(rel), info.Mode(), data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestWriteAll(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "out")
	var seen []string
	sum := write(t, out, two(), Options{Progress: func(p Progress) {
		seen = append(seen, fmt.Sprintf("%d/%d %s %s", p.Done, p.Total, p.Task, p.State))
	}})
	if want := (Summary{Tasks: 2, Written: 2, Dir: out}); sum != want {
		t.Errorf("%+v, want %+v", sum, want)
	}
	if want := []string{"1/2 a written", "2/2 b written"}; !slices.Equal(seen, want) {
		t.Errorf("progress %q, want %q", seen, want)
	}
	want := "a/task.toml -rw-r--r-- \"x\"\na/tests/test.sh -rwxr-xr-x \"#!/bin/sh\\n\"\nb/task.toml -rw-r--r-- \"y\"\n"
	if got := tree(t, out); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if sum := write(t, out, two(), Options{}); sum != (Summary{Tasks: 2, Unchanged: 2, Dir: out}) {
		t.Errorf("again: %+v", sum)
	}
	if err := os.RemoveAll(filepath.Join(out, "b")); err != nil {
		t.Fatal(err)
	}
	if sum := write(t, out, two(), Options{}); sum != (Summary{Tasks: 2, Written: 1, Unchanged: 1, Dir: out}) {
		t.Errorf("resumed: %+v", sum)
	}
}

func TestProofStaysWithAnUnchangedTask(t *testing.T) {
	out := t.TempDir()
	write(t, out, two(), Options{})
	proof := filepath.Join(out, "a", "proof.json")
	put(t, proof, "{}")
	if sum := write(t, out, two(), Options{Force: true}); sum.Unchanged != 2 {
		t.Errorf("%+v", sum)
	}
	if _, err := os.Stat(proof); err != nil {
		t.Error(err)
	}
	changed := two()
	changed[0].Files[0].Data = []byte("changed")
	write(t, out, changed, Options{Force: true})
	if _, err := os.Stat(proof); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the proof of the replaced task is still there: %v", err)
	}
}

func TestConflict(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, a string){
		"other bytes":    func(t *testing.T, a string) { put(t, filepath.Join(a, "task.toml"), "z") },
		"one file more":  func(t *testing.T, a string) { put(t, filepath.Join(a, "README.md"), "z") },
		"one file less":  func(t *testing.T, a string) { must(t, os.Remove(filepath.Join(a, "task.toml"))) },
		"not executable": func(t *testing.T, a string) { must(t, os.Chmod(filepath.Join(a, "tests/test.sh"), 0o644)) },
		"a link for a file": func(t *testing.T, a string) {
			must(t, os.Rename(filepath.Join(a, "task.toml"), filepath.Join(a, "../outside")))
			must(t, os.Symlink("../outside", filepath.Join(a, "task.toml")))
		},
		"a link for the directory": func(t *testing.T, a string) {
			must(t, os.Rename(a, a+"-elsewhere"))
			must(t, os.Symlink("a-elsewhere", a))
		},
		"a file for the directory": func(t *testing.T, a string) {
			must(t, os.RemoveAll(a))
			put(t, a, "z")
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			write(t, out, two()[:1], Options{})
			spoil(t, filepath.Join(out, "a"))
			before := tree(t, out)
			_, err := WriteAll(context.Background(), out, two(), Options{})
			var conflict *ConflictError
			if !errors.As(err, &conflict) || !slices.Equal(conflict.Names, []string{"a"}) {
				t.Fatalf("error %v, want a conflict over a", err)
			}
			if got := tree(t, out); got != before {
				t.Errorf("something was written in spite of the conflict:\n%s", got)
			}
			sum := write(t, out, two(), Options{Force: true})
			if sum.Replaced != 1 || sum.Written != 1 {
				t.Errorf("forced: %+v", sum)
			}
			if again := write(t, out, two(), Options{}); again.Unchanged != 2 {
				t.Errorf("after force: %+v", again)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBadNames(t *testing.T) {
	for _, d := range []Dir{
		dir(""), dir("."), dir(".."), dir(".hidden"), dir("a/b"), dir("a\nb"),
		dir("a", "../x", ""), dir("a", "/x", ""), dir("a", "x/../y", ""), dir("a", "", ""), dir("a", ".", ""), dir("a", "x", "", "x", ""),
	} {
		out := t.TempDir()
		if _, err := WriteAll(context.Background(), out, []Dir{d}, Options{}); err == nil {
			t.Errorf("%+v was accepted", d)
		}
		if got := tree(t, out); got != "" {
			t.Errorf("%+v wrote %s", d, got)
		}
	}
	if _, err := WriteAll(context.Background(), t.TempDir(), []Dir{dir("a"), dir("a")}, Options{}); err == nil {
		t.Error("two tasks of one name were accepted")
	}
}

// A stopped import leaves whole tasks only, and the next one goes on.
func TestStopAndResume(t *testing.T) {
	out := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	_, err := WriteAll(ctx, out, two(), Options{Progress: func(Progress) { cancel() }})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "after 1 of 2") {
		t.Errorf("error %v", err)
	}
	if got := tree(t, out); strings.Contains(got, "b/") || !strings.Contains(got, "a/tests/test.sh") {
		t.Errorf("left\n%s", got)
	}
	if sum := write(t, out, two(), Options{}); sum.Written != 1 || sum.Unchanged != 1 {
		t.Errorf("resumed: %+v", sum)
	}
}

func TestStaleLeftovers(t *testing.T) {
	out := t.TempDir()
	old, young := filepath.Join(out, tempPrefix+"1"), filepath.Join(out, tempPrefix+"2")
	put(t, filepath.Join(old, "new", "task.toml"), "half")
	put(t, filepath.Join(young, "new", "task.toml"), "half")
	past := time.Now().Add(-2 * staleAfter)
	must(t, os.Chtimes(old, past, past))
	write(t, out, two(), Options{})
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed import left is still there: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("what a running import may need is gone: %v", err)
	}
}

func packed(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	bomb := packed(bytes.Repeat([]byte(strings.Repeat("y", 1<<16)+"\n"), MaxTotal>>16+1))
	tests := []struct {
		name  string
		data  []byte
		lines int
		want  string // of the error
	}{
		{"plain", []byte("a\n\n  b \r\nc"), 3, ""},
		{"empty", nil, 0, ""},
		{"gzip", packed([]byte("a\nb\n")), 2, ""},
		{"long line", []byte("a\n" + long), 1, "f:2: the line is longer than"},
		{"bomb", bomb, -1, "the file is larger than 256 MiB"},
		{"torn gzip", packed([]byte("a\nb\n"))[:14], -1, "f:"},
		{"gzip in name only", []byte{0x1f, 0x8b, 1}, 0, "f:1: decompress"},
		{"refused", []byte("a\n\nno\n"), 2, "f:3: refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := filepath.Join(t.TempDir(), "f")
			put(t, src, string(tt.data))
			n := 0
			err := Lines(src, func(line []byte) error {
				n++
				if string(line) == "no" {
					return errors.New("refused")
				}
				return nil
			})
			if tt.lines >= 0 && n != tt.lines {
				t.Errorf("%d lines, want %d", n, tt.lines)
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if err := Lines(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("{}\n\n{}"))
	f.Add(packed([]byte("a\nb")))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := readLines(bytes.NewReader(data), func(line []byte) error {
			if len(line) == 0 || len(line) > MaxLine || bytes.ContainsAny(line, "\n") {
				t.Errorf("line %q", line)
			}
			return nil
		})
		if err == nil && !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) && n > bytes.Count(data, []byte("\n"))+1 {
			t.Errorf("%d lines of %q", n, data)
		}
	})
}
