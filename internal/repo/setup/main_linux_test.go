package setup

import (
	"os"
	"testing"

	"assay/internal/sandbox/ns"
)

// The sandbox's own processes are this program again.
func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
