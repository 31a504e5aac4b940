package script

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func texts(steps []step) (out []string) {
	for _, s := range steps {
		out = append(out, s.text)
	}
	return out
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"blank lines", "#!/bin/sh\n# about\n\nls\n\n\npwd\nid\n", []string{"ls\n", "pwd\nid\n"}},
		{"shebang joined", "#!/bin/sh\nls", []string{"#!/bin/sh\nls\n"}},
		{"here-document", "cat >x <<'END'\na\n\nb\nEND\n\nls", []string{"cat >x <<'END'\na\n\nb\nEND\n", "ls\n"}},
		{"here-document, tabs", "cat <<-\"E\"\n\ta\n\n\tE\n\nls", []string{"cat <<-\"E\"\n\ta\n\n\tE\n", "ls\n"}},
		{"a shift is none", "echo $((1<<2))\n\nls # <<x\n\n# a << b\nid", []string{"echo $((1<<2))\n", "ls # <<x\n\n# a << b\nid\n"}},
		{"here-string is none", "cat <<<x\n\nls", []string{"cat <<<x\n", "ls\n"}},
		{"indented goes on", "if true; then\n\tls\n\n\tpwd\n\nfi\n\nid", []string{"if true; then\n\tls\n\n\tpwd\n\nfi\n", "id\n"}},
		{"closing words", "f() {\nls\n\n}\n\nfor i in 1; do\nls\n\ndone | wc\n\nid", []string{"f() {\nls\n\n}\n", "for i in 1; do\nls\n\ndone | wc\n", "id\n"}},
		{"marked", "#!/bin/sh\n# step: one\nls\n\npwd\n#step:\nid\n", []string{"# step: one\nls\n\npwd\n", "#step:\nid\n"}},
		{"before the first mark", "set -x\n# step: one\nls", []string{"set -x\n", "# step: one\nls\n"}},
		{"carriage returns", "ls\r\n\r\npwd\r\n", []string{"ls\n", "pwd\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, texts(got)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestParseHeaders(t *testing.T) {
	got, err := parse([]byte("# step: look around\n# task: demo/*\n# task: csv-?\n\nls\n# task: not a header\n# step:\npwd\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].title != "look around" || got[0].line != 1 || got[1].title != "" || got[1].line != 7 {
		t.Fatalf("%+v", got)
	}
	for name, want := range map[string]bool{"demo/x": true, "demo/x/y": false, "other/csv-1": true, "csv-1": true, "csv-12": false, "": false} {
		if got[0].meant(name) != want {
			t.Errorf("meant for %q: %v", name, !want)
		}
		if !got[1].meant(name) {
			t.Errorf("a step without a header is not meant for %q", name)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "1: no step",
		"# only\n\n# comments\n":         "1: no step",
		"a\x00b":                         "UTF-8",
		"a\xff":                          "UTF-8",
		"# task: x\n\nls":                "1: a step that names tasks holds no command",
		"ls\n\n# task: [\nls":            `3: "["`,
		"# task:\nls":                    `1: ""`,
		strings.Repeat("x", 200<<10):     "1: a step of more",
		strings.Repeat("ls\n\n", 11_000): "more than 10000 steps",
		strings.Repeat("#\n", 3<<20):     "larger than",
	} {
		if got, err := parse([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %d steps, %v; want %q", in, len(got), err, want)
		}
	}
	if _, err := New("steps.sh", nil); err == nil || !strings.HasPrefix(err.Error(), "steps.sh:1: ") {
		t.Errorf("%v", err)
	}
}

// Every command line of the file is in exactly one step, in order.
func FuzzParse(f *testing.F) {
	f.Add([]byte("#!/bin/sh\n# step: a\nls\n\npwd\n# step: b\n# task: x/*\nid\n"))
	f.Add([]byte("cat <<E\n\nE\n\nif x\n\nfi\n"))
	f.Add([]byte("a <<\\E\n<<\n\n;;\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		steps, err := parse(b)
		if err != nil {
			return
		}
		var have, want []string
		for _, s := range steps {
			if s.line < 1 || s.text == "" {
				t.Fatalf("%+v", s)
			}
			have = append(have, commands(s.text)...)
		}
		for _, l := range commands(strings.ReplaceAll(string(b), "\r\n", "\n")) {
			want = append(want, l)
		}
		if d := cmp.Diff(want, have); d != "" {
			t.Fatalf("%q (-want +got):\n%s", b, d)
		}
	})
}

// commands are the lines that are neither blank nor comments.
func commands(text string) (out []string) {
	for _, l := range strings.Split(text, "\n") {
		if s := strings.TrimSpace(l); s != "" && !strings.HasPrefix(s, "#") {
			out = append(out, l)
		}
	}
	return out
}
