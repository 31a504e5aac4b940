//go:build !linux

package inside

// Main reports that there is nothing to do on this system.
func Main([]string) (int, bool) { return 0, false }
