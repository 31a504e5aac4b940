// Package sandbox is the contract of a place to run untrusted programs in, and
// what can be said of it without knowing how it is made: commands, execution
// with caps and deadlines, copying trees in and out of hostile places.
//
// A [Backend] makes sandboxes from image layers or from a [Snapshot]. The
// children ns, docker and fake implement it; sandboxtest is the conformance
// suite that all of them run. The package itself starts nothing.
//
// Invariants every backend keeps:
//   - Nothing survives Close: no process, mount, file or descriptor.
//   - Two sandboxes share nothing but read-only layers and binds.
//   - A snapshot never changes, however its source goes on.
//   - Tree access from the host side never follows a link out of the sandbox.
package sandbox
