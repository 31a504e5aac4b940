package model

import "net/http"

// Codec reads and writes one dialect. Its methods may be called concurrently;
// all that they read may be hostile.
type Codec interface {
	Dialect() Dialect

	// ParseRequest reads a body. path is that of the URL, which names gemini's
	// model and tells its streams apart.
	ParseRequest(path string, body []byte) (Request, error)
	// FormatRequest writes a body and the path that it is posted to
	// ("/v1/chat/completions"; see URL). What the dialect cannot say is left out
	// and listed; what it cannot do without is an error.
	FormatRequest(r Request) (path string, body []byte, losses []Loss, err error)

	// ParseResponse reads an unstreamed answer with status 200.
	ParseResponse(body []byte) (Response, error)
	// FormatResponse writes the answer r to the request asked.
	FormatResponse(asked Request, r Response) (body []byte, losses []Loss)

	// Decode returns a decoder of one streamed answer.
	Decode() Decoder
	// Encode returns an encoder of one streamed answer to r.
	Encode(r Request) Encoder

	// ParseError reads an answer with another status.
	ParseError(status int, header http.Header, body []byte) *Error
	// FormatError writes e as this dialect's servers do.
	FormatError(e *Error) (status int, header http.Header, body []byte)
}

// Codecs is the table of dialects; only the command layer fills it.
type Codecs map[Dialect]Codec

// DeltaKind says what a Delta adds.
type DeltaKind string

const (
	DeltaStart     DeltaKind = "start"     // ID and Model of the answer; Usage if it is told already
	DeltaText      DeltaKind = "text"      // Text to the text part Index
	DeltaReasoning DeltaKind = "reasoning" // Text to the reasoning part Index
	DeltaSignature DeltaKind = "signature" // Text to the signature of the reasoning part Index
	DeltaRefusal   DeltaKind = "refusal"   // Text to the refusal part Index
	DeltaCall      DeltaKind = "call"      // a call begins as part Index: Call, whose Arguments may be empty
	DeltaArguments DeltaKind = "arguments" // Text to the arguments of the call at Index
	DeltaPart      DeltaKind = "part"      // Part Index came whole, or what it is known to be at its end
	DeltaEnd       DeltaKind = "end"       // the part Index is complete
	DeltaUsage     DeltaKind = "usage"     // replaces what was known
	DeltaTokens    DeltaKind = "tokens"    // appended
	DeltaStop      DeltaKind = "stop"      // why it ended
	DeltaError     DeltaKind = "error"     // the provider failed within the stream
	DeltaDone      DeltaKind = "done"      // the stream is complete by the dialect's own word
)

// Delta is one step of a streamed answer. Index numbers the parts of the
// message, 0, 1, 2, … in the order in which they begin.
type Delta struct {
	Kind   DeltaKind
	Index  int
	ID     string
	Model  string
	Text   string
	Call   *Call // ID, Name, Custom and Namespace are known from the start
	Part   *Part
	Usage  *Usage
	Tokens *Tokens
	Stop   Stop
	Err    *Error
}

// Decoder turns the events of one stream into deltas. It is used by one
// goroutine.
type Decoder interface {
	// Next returns what e adds. An event that cannot be read is an error; the
	// caller may go on with the next one.
	Next(e Event) ([]Delta, error)
}

// Encoder writes one streamed answer. It is used by one goroutine.
type Encoder interface {
	// Next returns the bytes that d becomes on the wire, event framing
	// included; often none.
	Next(d Delta) []byte
	// Losses lists what the dialect could not say, once the stream is over.
	Losses() []Loss
}
