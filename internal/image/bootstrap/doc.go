// Package bootstrap makes a Debian or Ubuntu base image with debootstrap, as
// root or as an ordinary user.
//
// The host's debootstrap only downloads: it checks the archive's signature with
// the host's keys and reaches the mirror as the host's other tools do. It runs
// no program of the archive. Unpacking, and every maintainer script, happens in
// a sandbox without network, first upon the image "host", then upon what was
// unpacked.
//
// Invariants:
//   - No program of the archive runs outside a sandbox.
//   - What was downloaded stays in Options.Cache, so that an interrupted
//     bootstrap goes on where it was.
//   - An image gets its name only when every package is configured.
package bootstrap
