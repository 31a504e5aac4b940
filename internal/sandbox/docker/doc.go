// Package docker makes sandboxes of containers, through the HTTP API of an
// engine that speaks Docker's, and without its command line. One container is
// one sandbox; its first process is assay itself (package inside), mounted
// read-only from a volume, and everything a sandbox does goes over that
// process's standard streams: starting a program costs no call to the engine.
//
// # What an engine holds
//
// Images of the layer store are loaded once and tagged assay/image:<id>; they
// stay as a cache. A snapshot is a commit, tagged assay/snapshot:<handle>.
// Every backend has a keeper: a container that lives as long as its
// connection, whose volume holds the program. Whatever carries the label of a
// keeper that is gone is swept by the next Open on that engine, so that a
// killed assay leaves nothing; its containers end by themselves with their
// connections.
//
// # What it never does
//
// It gives a container no privilege, no host network or namespace and no socket
// of the engine, and it trusts nothing that comes out of one.
package docker
