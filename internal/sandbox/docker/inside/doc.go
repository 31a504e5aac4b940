// Package inside is the first process of a container that the docker backend
// made: assay itself, from a read-only volume. It starts programs, passes on
// signals, reaps, moves trees, tells what changed and hands connections to
// relayed ports out, all over its standard streams (package wire). When they
// end, it does, and the container with it.
//
// It has no right that the container's root has not, so that a program that
// tricks it gains nothing; it cannot be traced, and its exit ends everything.
// It never writes to a file system of the kernel.
package inside

// Marker is the argument by which Main knows that it is meant.
const Marker = "assay-docker-init"
