// Package gemini reads and writes the wire format of Google's
// generateContent, streamed and not. It never sends anything itself.
//
// Calls need no ids there: those that have none get ids by their order while a
// request is read, which are not written again.
//
// Source: the type definitions of the official SDK, google-genai 3.4 (PyPI).
package gemini
