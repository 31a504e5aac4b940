// Package anthropic reads and writes the wire format of Anthropic's messages,
// as its own servers speak it and other servers imitate it. It never sends
// anything itself.
//
// A turn of the user that holds results of tools and other things becomes
// several messages here; written again they are one turn.
//
// Source: the type definitions of the official SDKs, @anthropic-ai/sdk 1.12
// (npm) and anthropic 2.12 (PyPI).
package anthropic
