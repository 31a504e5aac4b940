// Package sandboxtest is the conformance suite of sandbox backends: what
// package sandbox promises, as tests that every backend runs alike.
//
// Where a backend claims less in its Capabilities, the suite checks that it
// says so instead of pretending; it never weakens a promise for one backend.
// Scripts in it are written in the least common shell: sh on Linux, and the
// small language of the fake. It needs no network and leaves nothing behind.
package sandboxtest
