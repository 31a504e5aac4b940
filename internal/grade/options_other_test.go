//go:build !linux

package grade

import (
	"testing"

	"assay/internal/image"
)

func storeOptions() image.Options { return image.Options{Volatile: true} }

func realBackends(testing.TB) []backendMaker { return nil }
