//go:build !linux

package history

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }
