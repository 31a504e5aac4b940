//go:build !linux

package agenttest

import (
	"testing"

	"assay/internal/sandbox"
)

func realOpeners() map[string]func(*testing.T) func(testing.TB) sandbox.Sandbox {
	return map[string]func(*testing.T) func(testing.TB) sandbox.Sandbox{}
}
