// Package fake is a sandbox backend in memory, for tests of what stands on
// sandboxes on machines that have none. It starts no process of the machine,
// touches no file of it and isolates by having nothing to isolate: a tree is a
// value in memory, and the programs inside are a small shell language (see
// shell.go) and a few tools, run by goroutines.
//
// It claims only what it does: no terminals, no relays, no limits, no network
// of its own. Snapshots, forks, resets, peeks and commits are real, and it
// passes package sandboxtest like every other backend.
package fake
