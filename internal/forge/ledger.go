package forge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// Stage is how far a candidate came.
type Stage string

const (
	StageRejected Stage = "rejected"
	StageAdmitted Stage = "admitted"
	// StageRun is no candidate: a run of the forge has ended, or, with a
	// generator, so much of its time was that one's.
	StageRun Stage = "run"
)

// Record is what became of one candidate, once and for all: equal content is
// never tried again.
type Record struct {
	Key       string    `json:"key,omitempty"`
	Stage     Stage     `json:"stage"`
	Generator string    `json:"generator,omitempty"`
	Name      string    `json:"name,omitempty"`
	Why       string    `json:"why,omitempty"` // it was rejected
	Detail    string    `json:"detail,omitempty"`
	Built     bool      `json:"built,omitempty"`  // its broken state could be made and looked at
	Bitten    bool      `json:"bitten,omitempty"` // some stable tests fail in it
	Task      string    `json:"task,omitempty"`   // directory
	Bytes     int64     `json:"bytes,omitempty"`
	Fail      int       `json:"fail_to_pass,omitempty"`
	Pass      int       `json:"pass_to_pass,omitempty"`
	Level     string    `json:"level,omitempty"`
	Evidence  string    `json:"evidence,omitempty"`
	Operators []string  `json:"operators,omitempty"`
	Seconds   float64   `json:"seconds,omitempty"` // of a run
	At        time.Time `json:"at"`
	// Sifted is what generators lost before there was a candidate, of a run.
	Sifted map[string]Sifting `json:"sifted,omitempty"`
}

// maxRecord is the longest line of a ledger that is read, in bytes.
const maxRecord = 1 << 20

// ledger is DIR/.forge/ledger.ndjson: append-only, one writer.
type ledger struct {
	file *os.File
	all  []Record
	by   map[string]int // records by key, the last one
}

// openLedger reads a ledger, or begins one. A last line without its end was
// being written when somebody was killed: it is cut off.
func openLedger(name string) (*ledger, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use: another forge works in this directory", name)
		}
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := &ledger{file: f, by: map[string]int{}}
	if err := l.read(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

func (l *ledger) read() error {
	r := bufio.NewReaderSize(l.file, 64<<10)
	at := int64(0)
	for n := 1; ; n++ {
		line, err := readLine(r)
		if err == io.EOF {
			break // what follows the last line break is half a record
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		var rec Record
		if err := json.Unmarshal(line, &rec); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		at += int64(len(line))
		l.keep(rec)
	}
	if err := l.file.Truncate(at); err != nil {
		return err
	}
	_, err := l.file.Seek(at, io.SeekStart)
	return err
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxRecord {
			return nil, fmt.Errorf("longer than %d bytes", maxRecord)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

func (l *ledger) keep(rec Record) {
	l.all = append(l.all, rec)
	if rec.Key != "" {
		l.by[rec.Key] = len(l.all) - 1
	}
}

func (l *ledger) find(key string) (Record, bool) {
	i, ok := l.by[key]
	if !ok {
		return Record{}, false
	}
	return l.all[i], true
}

// append writes a record; it is on disk when this returns.
func (l *ledger) append(rec Record) error {
	rec.At = time.Now().UTC()
	rec.Detail = strings.ToValidUTF8(rec.Detail, "�")
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	l.keep(rec)
	return nil
}

func (l *ledger) close() error { return l.file.Close() }

// writeJSON puts a file in place whole.
func writeJSON(name string, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	return renameio.WriteFile(name, b.Bytes(), 0o644)
}
