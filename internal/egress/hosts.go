package egress

import (
	"cmp"
	"slices"
)

// HostTotals are the sums of a ledger for one target.
type HostTotals struct {
	Host        string `json:"host"`
	Port        uint16 `json:"port,omitempty"` // none for names that were only looked up
	Connections int64  `json:"connections,omitempty"`
	Refused     int64  `json:"refused,omitempty"`
	Why         string `json:"why,omitempty"` // of the first refusal
	Sent        int64  `json:"sent,omitempty"`
	Received    int64  `json:"received,omitempty"`
}

type hostPort struct {
	host string
	port uint16
}

// maxHosts bounds the targets that are summed apart; a program can make up any
// number.
const maxHosts = 1000

// Hosts are the sums by target, in order. Of more than 1,000 targets the first
// are kept.
func (l *Ledger) Hosts() []HostTotals {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]HostTotals, 0, len(l.hosts))
	for _, h := range l.hosts {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b HostTotals) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	return all
}

// count adds an entry to its target's sums; l.mu is held.
func (l *Ledger) count(e Entry) {
	key := hostPort{e.Host, e.Port}
	h := l.hosts[key]
	if h == nil {
		if len(l.hosts) >= maxHosts {
			return
		}
		if l.hosts == nil {
			l.hosts = map[hostPort]*HostTotals{}
		}
		h = &HostTotals{Host: e.Host, Port: e.Port}
		l.hosts[key] = h
	}
	switch {
	case e.Verdict == Refused:
		if h.Refused++; h.Why == "" {
			h.Why = e.Why
		}
	case e.Via != ViaDNS:
		h.Connections++
	}
	h.Sent += e.Sent
	h.Received += e.Received
}
