package modeltest

import (
	"bytes"
	"encoding/json"
	"testing"

	"assay/internal/model"
)

// Fuzz feeds a codec bytes that nobody meant as an answer. What can be read
// must be writable, and the stream of it be read to the same text.
func Fuzz(f *testing.F, c model.Codec, s Samples) {
	for _, r := range s.Requests {
		f.Add(r.Path, []byte(r.Body))
	}
	for _, a := range s.Answers {
		f.Add("", []byte(a.Whole))
		f.Add("", []byte(a.Stream))
	}
	f.Fuzz(func(t *testing.T, path string, b []byte) {
		if r, err := c.ParseRequest(path, b); err == nil {
			path, body, _, err := c.FormatRequest(r)
			if err == nil {
				if _, err := c.ParseRequest(path, body); err != nil {
					t.Errorf("a request that was read and written cannot be read again: %v\n%s", err, body)
				}
			}
			c.Encode(r).Next(model.Delta{Kind: model.DeltaDone})
		}
		if r, err := c.ParseResponse(b); err == nil {
			body, _ := c.FormatResponse(model.Request{}, r)
			if !json.Valid(body) {
				t.Errorf("an answer that was read is written as %q", body)
			}
			if _, err := Decode(c, Events(t, Encode(c, model.Request{}, Deltas(r, 5)))); err != nil {
				t.Errorf("a stream that was written cannot be read: %v", err)
			}
		}
		c.ParseError(400, nil, b)
		d, enc := c.Decode(), c.Encode(model.Request{})
		r := model.NewEventReader(bytes.NewReader(b), 1<<20)
		var all model.Collector
		for {
			e, err := r.Next()
			if err != nil {
				break
			}
			deltas, _ := d.Next(e)
			for _, x := range deltas {
				all.Add(x)
				enc.Next(x)
			}
		}
		all.Response()
	})
}
