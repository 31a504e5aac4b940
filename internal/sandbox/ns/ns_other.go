//go:build !linux

package ns

import (
	"context"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// Backend exists on Linux only.
type Backend struct{}

// Main reports that there is nothing to do on this system.
func Main([]string) (int, bool) { return 0, false }

// Open returns a *doctor.Refusal.
func Open(context.Context, Config) (*Backend, error) { return nil, wrongSystem() }

// Owner is nil: layers belong to who writes them.
func Owner() *image.Owner { return nil }

// Probe says that this system is not Linux.
func Probe(context.Context, Config) []doctor.Finding {
	return []doctor.Finding{wrongSystem().(*doctor.Refusal).Finding}
}

// Machine says that this system is not Linux.
func Machine(Config) []doctor.Finding {
	return []doctor.Finding{wrongSystem().(*doctor.Refusal).Finding}
}

// ProbeTun says that this system is not Linux.
func ProbeTun(Config) doctor.Finding { return wrongSystem().(*doctor.Refusal).Finding }

func (*Backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Name: "ns", Isolation: "not on this system"}
}

func (*Backend) Create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return nil, wrongSystem()
}

func (*Backend) Commit(context.Context, sandbox.Snapshot) (image.LayerID, error) {
	return "", wrongSystem()
}

func (*Backend) Close() error { return nil }
