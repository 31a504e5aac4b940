package egress

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Entry is one line of a ledger: a connection that ended, a request through
// the proxy, or something that was refused. Bytes are seen from the sandbox.
type Entry struct {
	Begin    time.Time `json:"begin"`
	End      time.Time `json:"end"`
	Phase    string    `json:"phase,omitempty"`
	Via      Via       `json:"via"`
	Host     string    `json:"host"`            // as the sandbox named it: a name or an address
	Asked    string    `json:"asked,omitempty"` // the host it named, where Config.Rewrite led to another
	Name     string    `json:"name,omitempty"`  // that led the sandbox to the address, if Host is one
	Port     uint16    `json:"port,omitempty"`  // none for a lookup
	Addr     string    `json:"addr,omitempty"`  // that was connected to
	Upstream string    `json:"upstream,omitempty"`
	Verdict  Verdict   `json:"verdict"`
	Rule     string    `json:"rule,omitempty"` // that allowed it
	Why      string    `json:"why,omitempty"`  // of a refusal, a failure or a cut
	Sent     int64     `json:"sent"`
	Received int64     `json:"received"`
}

// Via is the way by which a sandbox asked.
type Via string

const (
	ViaConnect Via = "connect" // HTTP CONNECT
	ViaHTTP    Via = "http"    // a plain request through the proxy
	ViaSOCKS   Via = "socks"
	ViaTCP     Via = "tcp" // a packet of the interface
	ViaUDP     Via = "udp"
	ViaDNS     Via = "dns"
)

// Verdict is what the gate decided.
type Verdict string

const (
	Allowed Verdict = "allowed"
	Refused Verdict = "refused"
)

// Totals are the sums of a ledger.
type Totals struct {
	Connections int64 `json:"connections"` // allowed, lookups left out
	Refused     int64 `json:"refused"`
	Sent        int64 `json:"sent"`
	Received    int64 `json:"received"`
	Unwritten   int64 `json:"unwritten,omitempty"` // lines that found no room
}

// Ledger writes entries as NDJSON. The zero value counts and writes nothing.
type Ledger struct {
	w   io.Writer
	max int64

	mu     sync.Mutex
	bytes  int64
	totals Totals
	hosts  map[hostPort]*HostTotals
	err    error
}

const defaultLedger = 16 << 20

// NewLedger writes to w, at most max bytes; 0: 16 MiB. A program that refuses
// to end asking fills a ledger, not a disk.
func NewLedger(w io.Writer, max int64) *Ledger {
	if max <= 0 {
		max = defaultLedger
	}
	return &Ledger{w: w, max: max}
}

// Totals so far.
func (l *Ledger) Totals() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals
}

// Close writes the last line if lines were left out, and returns the first
// error of writing. It does not close the writer.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != nil && l.err == nil && l.totals.Unwritten > 0 {
		_, l.err = fmt.Fprintf(l.w, "{\"unwritten\":%d}\n", l.totals.Unwritten)
	}
	if l.err != nil {
		return fmt.Errorf("write egress ledger: %w", l.err)
	}
	return nil
}

func (l *Ledger) add(e Entry) {
	e.End = time.Now().UTC()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Verdict == Refused:
		l.totals.Refused++
	case e.Via != ViaDNS:
		l.totals.Connections++
	}
	l.count(e)
	l.totals.Sent += e.Sent
	l.totals.Received += e.Received
	if l.w == nil || l.err != nil {
		return
	}
	b, err := json.Marshal(e)
	if err != nil { // times far out of range
		l.err = err
		return
	}
	if l.bytes+int64(len(b))+1 > l.max {
		l.totals.Unwritten++
		return
	}
	n, err := l.w.Write(append(b, '\n'))
	l.bytes += int64(n)
	l.err = err
}
