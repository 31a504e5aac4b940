// Package toolserver lets agents use tools of the host. A [Book] bounds and
// writes down what one agent does with them; an agent on the host calls them as
// they stand in the book, one in a sandbox through a [Server], which speaks MCP
// (streamable HTTP) on connections of a relay of the sandbox. It listens
// nowhere, so nobody else can reach it.
//
// The arguments of a call are hostile. A tool that panics, hangs or floods is
// one failed call, and what one trial's agent does costs the others nothing.
// The package decides nothing about what a tool may tell: a tool must not know
// what its agent may not.
package toolserver
