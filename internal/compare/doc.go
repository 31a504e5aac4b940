// Package compare answers which arm is better, by how much, and whether the
// trials at hand can tell at all.
//
// It reads jobs through store and thinks with stats; it prints nothing, runs
// nothing and judges no trial anew. What it returns is one [Report], from which
// terminal, Markdown, CSV, JSON and the page are made, so that these cannot
// disagree.
//
// Invariants: two arms are compared only on tasks of equal digest under equal
// modes, and everything left out is named with its reason. No rate stands
// without its interval, what was graded of what was planned, and how it would
// lie had every lost trial failed or passed. A trial counts once, whatever
// jobs it is given in. A winner is named by one rule ([Pair.Verdict]), with
// Holm's correction where several comparisons are made at once.
package compare
