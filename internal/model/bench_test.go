package model_test

import (
	"testing"

	"assay/internal/model"
	"assay/internal/model/modeltest"
)

// What an event of a stream costs a relay that understands it: ns/op is for
// one event.
func BenchmarkStream(b *testing.B) {
	r := model.Response{ID: "x", Model: "m", Stop: model.StopEnd, Message: model.Message{Parts: []model.Part{{Kind: model.PartText, Text: string(make([]byte, 8000))}}}}
	for _, d := range model.Dialects() {
		c := codecs()[d]
		wire := modeltest.Encode(c, model.Request{Model: "m"}, modeltest.Deltas(r, 8))
		var events []model.Event
		var scan model.EventScanner
		keep := func(e model.Event) error { events = append(events, e); return nil }
		if err := scan.Feed(wire, keep); err != nil {
			b.Fatal(err)
		}
		b.Run("read/"+string(d), func(b *testing.B) {
			b.ReportAllocs()
			for done := 0; done < b.N; done += len(events) {
				if _, err := modeltest.Decode(c, events); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
