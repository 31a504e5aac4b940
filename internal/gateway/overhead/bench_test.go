package overhead

import (
	"testing"
	"time"

	"assay/internal/model"
	"assay/internal/model/openai"
)

// The measures are taken and are numbers; what they are is nobody's test.
func TestRun(t *testing.T) {
	seen := map[string]Result{}
	o := Options{Codecs: model.Codecs{model.Chat: openai.Chat{}}, Rounds: 5, Streams: 10, Events: 20, Pace: 5 * time.Millisecond, Unpaced: 50, Repeat: 1, Prompt: 2000, Sessions: 2}
	err := Run(t.Context(), o, func(r Result) error {
		if r.Gateway <= 0 || r.N <= 0 || r.Direct == nil {
			t.Errorf("%+v", r)
		}
		seen[r.Measure] = r
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first_byte_p50", "first_byte_p95", "paced_events", "paced_events_with_start", "paced_delay_p50", "paced_memory", "unpaced_events", "unpaced_memory", "record_on_disk"} {
		if _, ok := seen[name]; !ok {
			t.Errorf("%s was not measured", name)
		}
	}
}

// BenchmarkStreams is for profiles: streams through the gateway, as fast as
// they go.
func BenchmarkStreams(b *testing.B) {
	x := &bench{Options: Options{Codecs: model.Codecs{model.Chat: openai.Chat{}}, Streams: 200}.withDefaults()}
	if err := x.start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer x.stop()
	x.server.set(500, 0)
	for b.Loop() {
		if _, err := x.all(b.Context(), true, 500); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstByte is one request after the other, through the gateway.
func BenchmarkFirstByte(b *testing.B) {
	x := &bench{Options: Options{Codecs: model.Codecs{model.Chat: openai.Chat{}}}.withDefaults()}
	if err := x.start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer x.stop()
	c := newClient()
	defer c.close()
	for b.Loop() {
		if _, err := c.first(b.Context(), x.places(true)[0], x.body); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart is 200 requests at once for a short answer.
func BenchmarkStart(b *testing.B) {
	for _, through := range []bool{false, true} {
		b.Run(map[bool]string{false: "direct", true: "gateway"}[through], func(b *testing.B) {
			x := &bench{Options: Options{Codecs: model.Codecs{model.Chat: openai.Chat{}}, Streams: 200}.withDefaults()}
			if err := x.start(b.Context()); err != nil {
				b.Fatal(err)
			}
			defer x.stop()
			for b.Loop() {
				if _, err := x.all(b.Context(), through, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
