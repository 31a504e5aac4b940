package history

import (
	"os"
	"testing"

	"assay/internal/sandbox/ns"
)

// TestMain lets the test binary be the sandbox's own processes.
func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(run(m))
}
