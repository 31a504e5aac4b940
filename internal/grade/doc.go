// Package grade says what an agent's frozen work is worth. It makes a fresh
// sandbox, lets only data cross into it, puts the key's tests there, runs them,
// and reads their rewards as Harbor does.
//
// It never runs anything of the agent's before the tests are in place, never
// follows a link that an agent or a verifier made, never looks at who did the
// work, and never turns a fault of the machine into a verdict: those are
// errors, everything else is a [Verdict] with one cause.
//
// Invariants, each held by a test that names it:
//   - sealed and separate grading never touch the agent's own sandbox;
//   - no process of the verifier is alive when its rewards are read;
//   - nothing the agent left in /tests or /logs/verifier is seen;
//   - setid bits, devices, sockets and fifos of the agent do not cross in a
//     patch or an artifact;
//   - all that is copied to the host is capped in bytes and files.
package grade
