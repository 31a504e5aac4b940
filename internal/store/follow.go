package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"assay/trial"
)

// followEvery is how often Follow looks for more.
const followEvery = 150 * time.Millisecond

// Follow yields the events of a job that assay writes, from seq on: those that
// are there at once, the others as they come, within 200 ms. It ends when ctx
// ends (without an error), when the caller stops, or after an error. A job
// that ended is still followed, since it may be resumed; a torn or unreadable
// line is held back until a valid one follows it.
func Follow(ctx context.Context, dir string, from uint64) iter.Seq2[trial.Event, error] {
	return func(yield func(trial.Event, error) bool) {
		f, err := openEvents(dir, os.O_RDONLY)
		if err != nil {
			yield(trial.Event{}, fmt.Errorf("follow job %q: %w", dir, err))
			return
		}
		defer f.Close()
		t := follower{f: f, next: max(from, 1)}
		tick := time.NewTicker(followEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			more, err := t.read(yield)
			if err != nil {
				yield(trial.Event{}, fmt.Errorf("follow job %q: %w", dir, err))
				return
			}
			if !more {
				return
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}
}

type follower struct {
	f    *os.File
	next uint64 // seq to yield next, or above
	at   int64  // end of the last valid line
}

// read yields what has been added; false when the caller stopped. Only valid
// lines move the place to read from, so that a torn line which a recovery
// replaces is read again.
func (t *follower) read(yield func(trial.Event, error) bool) (bool, error) {
	info, err := t.f.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() < t.at {
		return false, errors.New("events.ndjson became shorter: it was replaced")
	}
	if info.Size() == t.at {
		return true, nil
	}
	br := bufio.NewReaderSize(io.NewSectionReader(t.f, t.at, info.Size()-t.at), 64<<10)
	at := t.at
	for {
		line, n, err := readLine(br)
		at += n
		if e, ok := parseEvent(bytes.TrimSpace(line)); ok {
			t.at = at
			if e.Seq >= t.next {
				t.next = e.Seq + 1
				if !yield(e, nil) {
					return false, nil
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}
