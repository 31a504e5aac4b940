package model

// Translator makes the stream of one dialect that of another, event by event.
type Translator struct {
	From Decoder
	To   Encoder
	// Answer grows with what the upstream says.
	Answer Collector
	done   bool
}

// Next returns the bytes that e becomes. An event that cannot be read is an
// error; those after it may be.
func (t *Translator) Next(e Event) ([]byte, error) {
	deltas, err := t.From.Next(e)
	return t.write(deltas), err
}

func (t *Translator) write(deltas []Delta) []byte {
	var out []byte
	for _, d := range deltas {
		t.Answer.Add(d)
		t.done = t.done || d.Kind == DeltaDone || d.Kind == DeltaError
		out = append(out, t.To.Next(d)...)
	}
	return out
}

// End is called when the upstream's stream has ended. It returns what is still
// to be written, and whether the answer was whole; if not, whoever relays it
// must not end it as if it were.
func (t *Translator) End() ([]byte, bool) {
	if !t.Answer.Whole() {
		return nil, false
	}
	if t.done {
		return nil, true
	}
	return t.write([]Delta{{Kind: DeltaDone}}), true
}
