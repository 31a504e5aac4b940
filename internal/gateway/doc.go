// Package gateway stands between agents and models. It gives every trial an
// address and a key of its own, speaks the agent's dialect, holds the real
// credential, relays streams as they come, and records every call at the wire.
//
// Invariants:
//   - No real credential passes to an agent, into a record or into an error.
//   - Raw bytes are stored before anything is made of them.
//   - A key is good for its trial alone, and for nothing once that is stopped.
//   - What one session does, or a server does to it, costs the others nothing.
//
// The record of a session is a directory of its trial; [Read] gives it back.
// Child atif makes trajectories of it.
package gateway
