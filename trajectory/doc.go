// Package trajectory reads, writes, builds, validates and measures what an
// agent did, as an ATIF 1.8 document (1.0 to 1.7 are read too).
//
// Reading is lenient: a key or value that the format does not know is kept in
// Unknown and written back, so that nothing of a foreign document is lost.
// [Validate] is strict and tells every breach, not only the first. The package
// never resolves subagent files, never looks up URLs and runs nothing.
//
// Source of the format: harbor/models/trajectories of Harbor 0.25 and its
// trajectory_validator.
package trajectory
