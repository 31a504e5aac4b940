package ns

import (
	"testing"

	"assay/internal/sandbox"
	"assay/internal/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	requireSandbox(t)
	sandboxtest.Run(t, sandboxtest.Subject{
		New:   func(t testing.TB) sandbox.Backend { b, _ := open(t); return b },
		Image: hostImage(), Walls: true,
	})
}
