// Package egress is the gate through which a sandbox reaches anything outside
// it: what a rule names, and nothing else.
//
// A [Gate] decides, connects and writes the ledger for one sandbox. It takes
// connections as an HTTP proxy (CONNECT and absolute-form requests) and SOCKS 5
// on the same port, answers the names that the sandbox's DNS asks for, and,
// through the child netstack, ends the TCP and UDP of a whole interface.
//
// Invariants:
//   - A name is looked up on the host once per connection, and the addresses
//     that were judged are those that are dialled: an answer that changes
//     (rebinding) changes nothing.
//   - A name that no rule allows is never looked up: a query would itself carry
//     data out.
//   - Loopback, link-local, private, metadata and other special addresses, and
//     the machine's own, are refused after resolution whatever name led there,
//     unless a rule of the operator names them (see [Rule]).
//   - Every connection and every refusal is a line of the ledger, until the
//     ledger is full; then the number of lines left out is its last line.
//
// The package never looks into TLS: whoever may reach a host may say anything
// to it, and a host that serves many names serves all of them.
package egress
