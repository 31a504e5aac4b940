// Package history proposes tasks from a repository's own past: commits and
// merges that mended something and came with a test for it.
//
// The healthy image stands at one commit. A mined commit is used where its
// inverse still applies to the healthy tree: what the agent begins with is that
// tree with the commit's source hunks taken back, what solves it is the tree as
// it is, and the tests are the commit's test files as they are today. So one
// image and one suite serve all of a repository's past that is still alive in it.
//
// It reads git's objects only, in a repository of its own that has the user's
// clone as an alternate: nothing is written to the clone, nothing of its
// configuration is obeyed, and nothing of it is run. It never admits anything.
package history
