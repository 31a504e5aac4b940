package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

// realMode is the uid mode with real owners that this machine gives this user;
// it skips where there is none.
func realMode(t testing.TB) sandbox.UIDMode {
	t.Helper()
	needSandbox(t)
	st, err := image.Open(image.HostPath(scratch(t)), image.Options{Owner: ns.Owner(), Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	modes := b.Capabilities().UIDModes
	if len(modes) < 2 {
		t.Skip("one user id only: an ordinary user needs a range in /etc/subuid and /etc/subgid, and newuidmap")
	}
	return modes[1]
}

// What commands do where owners are real.
func TestUIDScripts(t *testing.T) {
	mode, store := realMode(t), scratch(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/uid",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ASSAY_STORE", store)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("MODE", string(mode))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "trials": trials},
	})
}
