// Package overhead measures what a gateway adds to a direct connection: a server
// that streams, a client that reads, and the same requests with and without a
// gateway between them, all over TCP on this machine and in the same run.
//
// It never judges: figures are printed beside their targets, and who reads
// them decides.
package overhead

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"assay/internal/gateway"
	"assay/internal/model"
)

// Options say how much is measured. Zero means the default in brackets.
type Options struct {
	Codecs   model.Codecs
	Rounds   int           // requests, one after the other, for the first byte [300]
	Streams  int           // at once [200]
	Events   int           // of a paced stream [200]
	Pace     time.Duration // between two of them [50 ms]
	Unpaced  int           // events of a stream as fast as they go [2,000]
	Repeat   int           // of the rates, direct and through the gateway in turns [3]
	Prompt   int           // bytes of a request's messages [50,000]
	Sessions int           // that the streams belong to, as trials of a job [8]
}

// Result is one measure, with and without the gateway.
type Result struct {
	Measure string   `json:"measure"`
	Direct  *float64 `json:"direct"`  // null: it has none
	Gateway float64  `json:"gateway"` // median of its repeats
	Added   *float64 `json:"added,omitempty"`
	Ratio   *float64 `json:"ratio,omitempty"`
	Unit    string   `json:"unit"`
	Target  string   `json:"target,omitempty"`
	N       int      `json:"n"`
}

func (o Options) withDefaults() Options {
	for p, d := range map[*int]int{&o.Rounds: 300, &o.Streams: 200, &o.Events: 200, &o.Unpaced: 2000, &o.Repeat: 3, &o.Prompt: 50_000, &o.Sessions: 8} {
		if *p <= 0 {
			*p = d
		}
	}
	if o.Pace <= 0 {
		o.Pace = 50 * time.Millisecond
	}
	return o
}

// Run measures and emits.
func Run(ctx context.Context, o Options, emit func(Result) error) (err error) {
	o = o.withDefaults()
	b := &bench{Options: o, emit: emit}
	if err := b.start(ctx); err != nil {
		return fmt.Errorf("start bench of the gateway: %w", err)
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	for _, step := range []func(context.Context) error{b.firstByte, b.paced, b.unpaced, b.stored} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// bench is one run.
type bench struct {
	Options
	emit func(Result) error

	dir      string
	server   *server
	gw       *gateway.Gateway
	sessions []*gateway.Session
	listen   func() error // ends the listener
	at       string
	body     []byte
	peaks    map[bool]uint64 // of memory, by whether the gateway was between
}

// places are where a request goes: straight to the server, or through a session.
func (b *bench) places(through bool) []place {
	if !through {
		return []place{{url: b.server.url, key: serverKey}}
	}
	var all []place
	for _, s := range b.sessions {
		all = append(all, place{url: s.BaseAt(b.at), key: s.Key()})
	}
	return all
}

// think is the time between two requests of an agent, which runs a command in
// it.
const think = 10 * time.Millisecond

// firstByte asks one after the other, in turns, for an answer that the server
// begins at once.
func (b *bench) firstByte(ctx context.Context) error {
	times := map[bool][]float64{}
	c := newClient()
	defer c.close()
	for i := range b.Rounds + 20 {
		for _, through := range []bool{false, true} {
			time.Sleep(think)
			ms, err := c.first(ctx, b.places(through)[0], b.body)
			if err != nil {
				return fmt.Errorf("measure the first byte: %w", err)
			}
			if i >= 20 { // connections are made by then
				times[through] = append(times[through], ms)
			}
		}
	}
	for _, q := range []struct {
		name string
		at   float64
	}{{"first_byte_p50", 0.5}, {"first_byte_p95", 0.95}} {
		d, g := quantile(times[false], q.at), quantile(times[true], q.at)
		added := g - d
		if err := b.emit(Result{Measure: q.name, Direct: &d, Gateway: g, Added: &added, Unit: "ms", Target: "added ≤ 1", N: b.Rounds}); err != nil {
			return err
		}
	}
	return nil
}

// paced streams at the pace of a model.
func (b *bench) paced(ctx context.Context) error {
	d, g, wall, delays, err := b.rates(ctx, b.Events, b.Pace)
	if err != nil {
		return fmt.Errorf("measure paced streams: %w", err)
	}
	ratio := g / d
	if err := b.emit(Result{Measure: "paced_events", Direct: &d, Gateway: g, Ratio: &ratio, Unit: "events/s", Target: "ratio ≥ 0.98", N: b.Streams * b.Events * b.Repeat}); err != nil {
		return err
	}
	slower := wall[true] / wall[false]
	direct := wall[false]
	if err := b.emit(Result{Measure: "paced_events_with_start", Direct: &direct, Gateway: wall[true], Ratio: &slower, Unit: "events/s", N: b.Streams * b.Events * b.Repeat}); err != nil {
		return err
	}
	direct = quantile(delays[false], 0.5)
	through := quantile(delays[true], 0.5)
	added := through - direct
	if err := b.emit(Result{Measure: "paced_delay_p50", Direct: &direct, Gateway: through, Added: &added, Unit: "ms", N: len(delays[true])}); err != nil {
		return err
	}
	without, with := float64(b.peaks[false])/1e6, float64(b.peaks[true])/1e6
	more := with - without
	return b.emit(Result{Measure: "paced_memory", Direct: &without, Gateway: with, Added: &more, Unit: "MB of heap and stacks, client and server included", N: b.Streams})
}

// unpaced streams as fast as it goes: here the gateway's own work shows.
func (b *bench) unpaced(ctx context.Context) error {
	_, _, wall, _, err := b.rates(ctx, b.Unpaced, 0)
	if err != nil {
		return fmt.Errorf("measure unpaced streams: %w", err)
	}
	d, g := wall[false], wall[true]
	ratio := g / d
	if err := b.emit(Result{Measure: "unpaced_events", Direct: &d, Gateway: g, Ratio: &ratio, Unit: "events/s", N: b.Streams * b.Unpaced * b.Repeat}); err != nil {
		return err
	}
	without, with := float64(b.peaks[false])/1e6, float64(b.peaks[true])/1e6
	more := with - without
	return b.emit(Result{Measure: "unpaced_memory", Direct: &without, Gateway: with, Added: &more, Unit: "MB of heap and stacks, client and server included", N: b.Streams})
}

// rates are events a second, the medians of the repeats: while the streams
// run, and from the first request to the last event (wall).
func (b *bench) rates(ctx context.Context, events int, pace time.Duration) (direct, through float64, wall map[bool]float64, delays map[bool][]float64, err error) {
	rate, total := map[bool][]float64{}, map[bool][]float64{}
	delays = map[bool][]float64{}
	b.peaks = map[bool]uint64{}
	b.server.set(events, pace)
	for range b.Repeat {
		for _, by := range []bool{false, true} {
			runtime.GC()
			stop := b.watch(by)
			r, err := b.all(ctx, by, events)
			stop()
			if err != nil {
				return 0, 0, nil, nil, err
			}
			rate[by] = append(rate[by], r.running)
			total[by] = append(total[by], r.wall)
			delays[by] = append(delays[by], r.delays...)
		}
	}
	wall = map[bool]float64{false: quantile(total[false], 0.5), true: quantile(total[true], 0.5)}
	return quantile(rate[false], 0.5), quantile(rate[true], 0.5), wall, delays, nil
}

// round is what came of many streams at once.
type round struct {
	running float64 // events a second, the sum of every stream's own rate
	wall    float64 // events a second, from the first request to the last event
	delays  []float64
}

// all runs the streams and waits for the last one.
func (b *bench) all(ctx context.Context, through bool, events int) (round, error) {
	c := newClient()
	defer c.close()
	places := b.places(through)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	var all round
	begin := time.Now()
	for i := range b.Streams {
		wg.Go(func() {
			n, took, d, err := c.stream(ctx, places[i%len(places)], b.body)
			if err == nil && n != events {
				err = fmt.Errorf("%d events of %d arrived", n, events)
			}
			mu.Lock()
			defer mu.Unlock()
			all.delays = append(all.delays, d...)
			if took > 0 {
				all.running += float64(n-1) / took.Seconds()
			}
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	if len(errs) > 0 {
		return all, fmt.Errorf("%d of %d streams failed, one with: %w", len(errs), b.Streams, errs[0])
	}
	all.wall = float64(b.Streams*events) / time.Since(begin).Seconds()
	return all, nil
}

// watch notes the most memory in use until it is stopped.
func (b *bench) watch(through bool) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(250 * time.Millisecond)
		defer t.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.peaks[through] = max(b.peaks[through], m.HeapInuse+m.StackInuse)
			select {
			case <-t.C:
			case <-done:
				return
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// stored says what the records of all that take on disk.
func (b *bench) stored(context.Context) error {
	var bytes, calls, raw float64
	for i, s := range b.sessions {
		sum, err := s.Close()
		if err != nil {
			return err
		}
		calls += float64(sum.Calls)
		err = filepath.WalkDir(b.record(i), func(_ string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			st, err := d.Info()
			if err == nil {
				bytes += float64(st.Size())
			}
			return err
		})
		if err != nil {
			return err
		}
		rec, err := gateway.Read(b.record(i))
		if err != nil {
			return err
		}
		for _, c := range rec.Calls() {
			raw += float64(c.Bytes + c.Answered)
		}
		if err := rec.Close(); err != nil {
			return err
		}
	}
	raw /= 1e6
	return b.emit(Result{Measure: "record_on_disk", Direct: &raw, Gateway: bytes / 1e6, Unit: "MB; direct: what went over the wire", N: int(calls)})
}

func (b *bench) record(i int) string { return filepath.Join(b.dir, fmt.Sprint(i)) }

// quantile of a sample, by linear interpolation.
func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return 0
	}
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}
