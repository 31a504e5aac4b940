package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/trial"
)

// maxLine bounds one line of events.ndjson. Longer ones are refused when
// written and skipped when read.
const maxLine = 1 << 20

// eventLog appends to events.ndjson.
type eventLog struct {
	disk disk
	now  func() time.Time

	mu   sync.Mutex // guards the file's end: seq, size
	f    *os.File
	seq  uint64
	size int64

	syncMu sync.Mutex // one fsync at a time serves all that wrote before it
	synced int64
}

// append fills V, Seq and Time and writes the event as one line in one write.
// It returns the event as written. A failed write leaves no part of a line.
func (l *eventLog) append(e trial.Event) (trial.Event, error) {
	end, err := l.write(&e)
	if err != nil {
		return e, err
	}
	l.disk.at("event.write.after")
	if e.Kind == trial.TrialFinished || strings.HasPrefix(string(e.Kind), "job.") {
		if err := l.sync(end); err != nil {
			return e, fmt.Errorf("sync event %s: %w", e.Kind, err)
		}
		l.disk.at("event.synced")
	}
	return e, nil
}

func (l *eventLog) write(e *trial.Event) (end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return 0, fmt.Errorf("append event %s: the job is closed", e.Kind)
	}
	e.V, e.Seq, e.Time = trial.EventVersion, l.seq+1, l.now().UTC()
	line, err := encodeEvent(*e)
	if err != nil {
		return 0, fmt.Errorf("append event %s of %q: %w", e.Kind, e.Trial, err)
	}
	l.disk.at("event.write.before")
	rest := line
	if l.disk.boundary != nil { // only a crash test sees half a line
		n, err := l.f.Write(line[:len(line)/2])
		if err != nil {
			return 0, errors.Join(err, l.f.Truncate(l.size))
		}
		rest = line[n:]
		l.disk.at("event.write.half")
	}
	if _, err := l.f.Write(rest); err != nil {
		return 0, fmt.Errorf("append event %s: %w", e.Kind, errors.Join(err, l.f.Truncate(l.size)))
	}
	l.seq++
	l.size += int64(len(line))
	return l.size, nil
}

// encodeEvent writes one line. Data is compacted: a line break in it would end
// the line.
func encodeEvent(e trial.Event) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, err
	}
	if b.Len() > maxLine {
		return nil, fmt.Errorf("an event of %d bytes is larger than %d", b.Len(), maxLine)
	}
	return b.Bytes(), nil
}

// sync makes the log durable up to end.
func (l *eventLog) sync(end int64) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.synced >= end {
		return nil
	}
	l.mu.Lock()
	size, f := l.size, l.f
	l.mu.Unlock()
	if f == nil {
		return os.ErrClosed
	}
	if err := l.disk.fsync(f); err != nil {
		return err
	}
	l.synced = size
	return nil
}

func (l *eventLog) close() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

// tail is what reading a log to its end came to.
type tail struct {
	events []trial.Event
	good   int64 // bytes up to the end of the last valid line
	total  int64
	bad    int // invalid lines before the last valid one
	twice  int // events whose seq was not above the one before
}

// parseEvents reads a log. Lines that are no events are skipped; those after
// the last valid line are the torn tail. Of two events with one seq the first
// stands. Unknown kinds are kept.
func parseEvents(r io.Reader) (tail, error) {
	var t tail
	var last uint64
	skipped := 0
	br := bufio.NewReaderSize(r, 256<<10)
	for {
		line, n, err := readLine(br)
		t.total += n
		if e, ok := parseEvent(line); ok {
			t.good = t.total
			t.bad += skipped
			skipped = 0
			if e.Seq <= last {
				t.twice++
			} else {
				last = e.Seq
				t.events = append(t.events, e)
			}
		} else if n > 0 {
			skipped++
		}
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
	}
}

// readLine reads one whole line with its end, and its length. A line that is
// too long comes back empty; so does a last line without an end.
func readLine(br *bufio.Reader) (line []byte, n int64, err error) {
	for {
		part, err := br.ReadSlice('\n')
		n += int64(len(part))
		if n <= maxLine {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil || n > maxLine {
			return nil, n, err
		}
		return line, n, nil
	}
}

// maxSeq bounds the seq that is believed: beyond it numbers stop being exact in
// other readers of JSON.
const maxSeq = 1 << 53

func parseEvent(line []byte) (trial.Event, bool) {
	var e trial.Event
	if len(line) == 0 || json.Unmarshal(line, &e) != nil || e.V < 1 || e.Seq < 1 || e.Seq > maxSeq || e.Kind == "" {
		return trial.Event{}, false
	}
	return e, true
}

func openEvents(dir string, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, EventsFile), flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", f.Name()), err, f.Close())
	}
	return f, nil
}
