package docker

import (
	"strings"
	"sync"
)

// words keeps the end of what a program said.
type words struct {
	mu   sync.Mutex
	last []byte
	keep int // bytes; 0: maxWords
}

const maxWords = 2 << 10

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = append(w.last, b...)
	keep := w.keep
	if keep == 0 {
		keep = maxWords
	}
	if len(w.last) > 2*keep { // seldom, so that a byte costs little
		w.last = append(w.last[:0], w.last[len(w.last)-keep:]...)
	}
	return len(b), nil
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(w.last), "?"))
}
