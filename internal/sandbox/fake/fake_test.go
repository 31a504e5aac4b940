package fake

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/sandboxtest"
)

func open(t testing.TB) *Backend {
	t.Helper()
	st, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	b := Open(st)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestConformance(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Subject{
		New:   func(t testing.TB) sandbox.Backend { return open(t) },
		Image: image.Image{Name: "empty"},
	})
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t)
	b := open(t)
	s, err := b.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"sleep 600 & sleep 600", "cat", "while true; do :; done", "cat | cat", "trap '' TERM; sleep 600 & wait"} {
		p, err := s.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", c}, Stdin: true})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestShell(t *testing.T) {
	s, err := open(t).Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		`echo a b  'c  d' "e $HOME" f\ g`:                                                "a b c  d e /root f g\n",
		`x=1; y="$x$x"; echo ${y}z $? ${none:-def}`:                                      "11z 0 def\n",
		`false || echo or; true && echo and; ! true || echo not`:                         "or\nand\nnot\n",
		`i=0; while test $i -lt 3; do i=$((i+1)); echo $i; done`:                         "1\n2\n3\n",
		`for f in a "b c" d; do echo [$f]; done`:                                         "[a]\n[b c]\n[d]\n",
		"if test 1 -gt 2\nthen echo no\nelif [ a = a ]\nthen echo yes\nelse echo no\nfi": "yes\n",
		`echo one > /f; echo two >> /f; cat < /f | grep two`:                             "two\n",
		`(cd /tmp; pwd; exit 3); echo $? $(pwd)`:                                         "/tmp\n3 /\n",
		`{ echo a; echo b >&2; } 2>&1 | cat`:                                             "a\nb\n",
		`echo hidden > /dev/null; A=1 env | grep ^A; A=2; echo "$A"`:                     "2\n",
		`sh -c 'echo $0 $1 $#' name arg`:                                                 "name arg 1\n",
		`printf '%s-%s\n' a b c`:                                                         "a-b\nc-\n",
		"echo a # comment\n# another\necho b":                                            "a\nb\n",
		`mkdir /l; echo > /l/a; ls /l /no > /names 2> /errors; cat /names /errors`:       "a\nls: /no: no such file or directory\n",
		`mkdir /l2; echo > /l2/a; find /l2 > /found; cat /found`:                         "/l2\n/l2/a\n",
		`no-such-tool 2> /dev/null; echo $?`:                                             "127\n",
	} {
		r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"sh", "-c", script}}, sandbox.ExecOptions{})
		if err != nil || string(r.Stdout) != want {
			t.Errorf("%s\ngot %q (%s), %v; want %q", script, r.Stdout, r.Stderr, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"echo a", "if a; then b; fi", "a | b && c || d &", "for x in $(a); do (b); done > f", "'", "$((", "{{{{", "((((", ">&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if _, err := parse(src); err != nil && !strings.HasPrefix(err.Error(), "syntax error: ") {
			t.Errorf("%v", err)
		}
	})
}
