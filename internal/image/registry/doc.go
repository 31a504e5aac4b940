// Package registry pulls images from registries into the layer store and
// pushes them back. A blob that was cut off is continued where it stopped, one
// with wrong bytes is refused, and what the store has is not fetched.
//
// Registries are hostile: every document and blob has a cap, what a digest
// names is compared with it, credentials go to the registry they belong to,
// and plain HTTP is spoken only to loopback or where the user said so. The
// package reads no environment; credential helpers are the only programs it
// starts, without a shell and with a time limit.
package registry
