//go:build !linux

package inside

// Threads of a first process, which is on Linux.
const Threads = 32

// Main reports that there is nothing to do on this system.
func Main([]string) (int, bool) { return 0, false }
