package model

// Stateless reports, as an error, what of a request lives on the server of its
// own dialect, so that no other can answer it.
func (r *Request) Stateless() error {
	for _, key := range []string{"previous_response_id", "conversation", "prompt", "cachedContent"} {
		if raw, ok := r.Extra[key]; ok && (r.Dialect == Responses || r.Dialect == Gemini) && !isNull(raw) {
			return &Error{Kind: ErrBadRequest, Message: key + " refers to what only the provider's own server keeps;" +
				" the request cannot be translated: send the whole conversation (store: false)"}
		}
	}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Kind != PartOpaque || p.Dialect != Responses {
				continue
			}
			if o, err := ParseObject("", p.Raw); err == nil && o.Peek("type") == "item_reference" {
				return &Error{Kind: ErrBadRequest, Message: "an item_reference refers to what only the provider's own" +
					" server keeps; the request cannot be translated: send the item itself"}
			}
		}
	}
	return nil
}
