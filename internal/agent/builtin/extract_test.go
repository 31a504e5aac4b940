package builtin

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/task"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		instruction string
		answer      []string
		want        string // paths, or the error
	}{
		{"Complete `f` in `/app/solution.py`.\nTests import `/app/solution.py`; use `os.path.join(a)` or `None`.", nil, "/app/solution.py"},
		{"Write `out/answer.txt` with `a.b`", nil, "names several files (/w/out/answer.txt, /w/a.b)"},
		{"Write `out/answer.txt`.", nil, "/w/out/answer.txt"},
		{"Read `/etc/passwd`, write `x.py`, see `y.py`.", nil, "several files"},
		{"Read `in.txt`, write `x.py`.", []string{"/w/x.py"}, "/w/x.py"},
		{"Do `it` well.", nil, "name it as answer in [metadata.assay]"},
		{"Write `../up.py`.", nil, "names no file"},
		{"", slices.Repeat([]string{"/a"}, 21), "20 at most"},
	} {
		got, err := targets(task.Brief{Instruction: c.instruction, Answer: c.answer}, "/w")
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) || (err == nil) != strings.HasPrefix(c.want, "/") {
			t.Errorf("%q: %s; want %s", c.instruction, text, c.want)
		}
	}
}

func TestExtract(t *testing.T) {
	py := asked{Path: "/app/solution.py", Text: "def f():\n    \"\"\"Doc.\"\"\"\n"}
	js := asked{Path: "/app/lib/x.js", Missing: true}
	for _, c := range []struct {
		name, text string
		files      []asked
		want       []answered
	}{
		{"one block", "Sure:\n```python\ndef f():\n    return 1\n```\nThat is it.", []asked{py}, []answered{{py.Path, "def f():\n    return 1\n"}}},
		{"usage after it", "```python\nA\n```\nUse it:\n```python\nf()\n```", []asked{py}, []answered{{py.Path, "A\n"}}},
		{"another language before", "```bash\npython x\n```\n```py\nA\n```", []asked{py}, []answered{{py.Path, "A\n"}}},
		{"no language", "```\nA\n```", []asked{py}, []answered{{py.Path, "A\n"}}},
		{"named", "Example:\n```python\nf()\n```\n**solution.py**\n```python\nA\n```", []asked{py}, []answered{{py.Path, "A\n"}}},
		{"named in the info", "```python /app/solution.py\nA\n```", []asked{py}, []answered{{py.Path, "A\n"}}},
		{"named as title", "```py title=solution.py\nA\n```", []asked{py}, []answered{{py.Path, "A\n"}}},
		{"the last one counts", "`solution.py`:\n```\nA\n```\nBetter, `solution.py`:\n```\nB\n```", []asked{py}, []answered{{py.Path, "B\n"}}},
		{"the body alone", "```python\n    return 1\n```", []asked{py}, []answered{{py.Path, py.Text + "    return 1\n"}}},
		{"a bare completion", "    return 1\n\n", []asked{py}, []answered{{py.Path, py.Text + "    return 1\n"}}},
		{"bare code", "\ndef f():\n    return 2", []asked{py}, []answered{{py.Path, "def f():\n    return 2\n"}}},
		{"cut off", "```python\ndef f():\n    return", []asked{py}, []answered{{py.Path, "def f():\n    return\n"}}},
		{"empty", " \n", []asked{py}, nil},
		{"an empty block", "```python\n```", []asked{py}, nil},
		{"two files", "lib/x.js\n```js\nX\n```\nsolution.py:\n```py\nP\n```", []asked{py, js}, []answered{{js.Path, "X\n"}, {py.Path, "P\n"}}},
		{"two files without names", "```js\nX\n```", []asked{py, js}, nil},
		{"a file that nobody asked for", "/etc/passwd\n```\nroot\n```\n../solution.js\n```\nx\n```", []asked{py, js}, nil},
		{"a long line of prose", "I would put this into the file solution.py\n```python\nA\n```\n```python\nB\n```", []asked{py}, []answered{{py.Path, "A\n"}}},
	} {
		got := extract(c.text, c.files)
		if d := cmp.Diff(c.want, got, cmp.AllowUnexported(answered{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

// Nothing but the files asked for is ever written.
func FuzzExtract(f *testing.F) {
	f.Add("```python a.py\nx\n```")
	f.Add("/etc/x\n~~~\n  y")
	f.Fuzz(func(t *testing.T, text string) {
		for _, files := range [][]asked{{{Path: "/app/a.py", Text: "p\n"}}, {{Path: "/a.py"}, {Path: "/b/c.js", Missing: true}}} {
			got := extract(text, files)
			if len(got) > len(files) {
				t.Errorf("%d files of %d", len(got), len(files))
			}
			for _, g := range got {
				if !slices.ContainsFunc(files, func(a asked) bool { return a.Path == g.path }) {
					t.Errorf("wrote %s", g.path)
				}
			}
		}
	})
}
