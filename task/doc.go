// Package task is what there is to solve: reading, writing, digesting and
// linting Harbor task directories (schema 1.4, every legacy spelling), split
// into a [Brief], which the agent may see, and a [Key], which only the grader
// may see.
//
// Reading is lenient, as Harbor's is; [Lint] is strict. Task directories are
// untrusted: sizes are capped, links never lead out, nothing is executed. The
// package imports nothing of assay's own and never writes into a task it reads.
package task
