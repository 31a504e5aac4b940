package agenttest

import (
	"fmt"
	"strconv"
	"testing"

	"assay/internal/agent/command"
	"assay/internal/agent/external"
	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/agent/prediction"
	"assay/internal/agent/script"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
)

// everywhere runs a test on each kind of sandbox.
func everywhere(t *testing.T, f func(t *testing.T, open func(testing.TB) sandbox.Sandbox)) {
	t.Helper()
	openers := realOpeners()
	openers["fake"] = openFake
	for name, o := range openers {
		t.Run(name, func(t *testing.T) { f(t, o(t)) })
	}
}

func openFake(t *testing.T) func(testing.TB) sandbox.Sandbox {
	store, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	w, err := store.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, d := range []string{"project", "tmp"} {
		if err := w.Add(image.Entry{Path: d, Type: image.TypeDir, Mode: 0o755}, nil); err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	b := fake.Open(store)
	t.Cleanup(func() { b.Close() })
	return func(t testing.TB) sandbox.Sandbox {
		sb, err := b.Create(t.Context(), sandbox.Spec{Image: image.Image{Layers: []image.LayerID{id}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sb.Close() })
		return sb
	}
}

const (
	works = `[ "$FROM_SESSION" = yes ] && echo worked >>/project/out`
	fails = `echo failing; exit 3`
	hangs = `trap '' TERM; while :; do echo beat >>/project/beat; sleep 0.02; done`
)

func TestNop(t *testing.T) {
	everywhere(t, func(t *testing.T, open func(testing.TB) sandbox.Sandbox) {
		Run(t, Suite{Open: open, Works: Case{Agent: nop.New()}, NoProgram: true})
	})
}

func TestPrediction(t *testing.T) {
	patch := "diff --git a/out b/out\nnew file mode 100644\n--- /dev/null\n+++ b/out\n@@ -0,0 +1 @@\n+worked\n"
	for name, o := range realOpeners() { // the fake's shell knows no functions
		t.Run(name, func(t *testing.T) {
			Run(t, Suite{Open: o(t), Works: Case{Agent: prediction.New("m", "sha256:0", prediction.Patch, patch)}})
		})
	}
}

func TestOracle(t *testing.T) {
	sh := func(s string) *Case { return &Case{Agent: oracle.New(), Solution: "#!/bin/sh\n" + s + "\n"} }
	everywhere(t, func(t *testing.T, open func(testing.TB) sandbox.Sandbox) {
		Run(t, Suite{Open: open, Works: *sh(works), Fails: sh(fails), Hangs: sh(hangs)})
	})
}

func TestExternal(t *testing.T) {
	sh := func(s string) *Case {
		r, err := external.Parse("a.toml", fmt.Appendf(nil, "name = \"a\"\nversion = \"1\"\n[install]\nruntime = \"none\"\n[run]\ncommand = [\"/bin/sh\", \"-c\", %s]\n", strconv.Quote(s)))
		if err != nil {
			t.Fatal(err)
		}
		a, err := external.New(r, external.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return &Case{Agent: a}
	}
	everywhere(t, func(t *testing.T, open func(testing.TB) sandbox.Sandbox) {
		Run(t, Suite{Open: open, Works: *sh(works), Fails: sh(fails), Hangs: sh(hangs)})
	})
}

func TestCommand(t *testing.T) {
	sh := func(s string) *Case { return &Case{Agent: command.New(s)} }
	everywhere(t, func(t *testing.T, open func(testing.TB) sandbox.Sandbox) {
		Run(t, Suite{Open: open, Works: *sh(works), Fails: sh(fails), Hangs: sh(hangs)})
	})
}

func TestScript(t *testing.T) {
	sh := func(s string) *Case {
		a, err := script.New("test", []byte("#!/bin/sh\n# step: look\ntrue\n# step: work\n"+s+"\n# step: never\n# task: other/*\nexit 9\n"))
		if err != nil {
			t.Fatal(err)
		}
		return &Case{Agent: a}
	}
	everywhere(t, func(t *testing.T, open func(testing.TB) sandbox.Sandbox) {
		Run(t, Suite{Open: open, Works: *sh(works), Fails: sh(fails), Hangs: sh(hangs)})
	})
}
