// Package external runs agents that other people wrote: programs from npm or
// PyPI, or files of the user's own, described by a [Recipe].
//
// A recipe is data. What an agent needs beyond the fields of a recipe it does
// not get: there is no code for any one of them. An agent is installed once,
// outside every trial's clock, into a read-only layer that carries its own
// runtime, C library and loader, and is mounted beside any task's image at
// [Recipe.Place]. Nothing of the layer is in the environment of the task's own
// commands.
//
// Recipe files and everything that an agent leaves behind are hostile. The
// package holds no credential but the capability of one trial, and starts
// nothing outside a sandbox.
package external
