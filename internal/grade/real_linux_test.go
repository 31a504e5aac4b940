package grade

import "testing"

// realBackends are the sandboxes with walls that this machine can give.
func realBackends(testing.TB) []backendMaker { return nil }
