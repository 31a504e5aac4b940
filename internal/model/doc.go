// Package model is how assay speaks with language models: one form of messages
// for four wire formats, and what a provider's answers and errors mean.
//
// A [Codec] reads and writes one wire format (a [Dialect]). The gateway uses
// codecs to understand traffic that it relays byte for byte, and, where an
// agent's dialect is not the provider's, to translate; the built-in agents use
// them through a [Client]. Children openai, anthropic and gemini are codecs;
// scripted and replay are providers without a model behind them; modeltest is
// what all codecs must pass.
//
// The package never retokenises, and keeps what it does not understand as it
// came: unknown numbers are nil, unknown fields stay in Extra, unknown items
// are opaque parts. It holds no credential.
package model
