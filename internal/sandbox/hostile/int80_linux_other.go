//go:build linux && !amd64

package hostile

import "errors"

// foreignCalls are those of other tables; this machine's kernel has one.
func foreignCalls() tries {
	none := plain(func() error { return errors.New("this machine has no other table of calls") })
	return tries{"32-bit call": none, "x32 call": none}
}
