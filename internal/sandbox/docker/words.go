package docker

import (
	"strings"
	"sync"
)

// words keeps the end of what a container's first process said.
type words struct {
	mu   sync.Mutex
	last []byte
}

const maxWords = 2 << 10

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = append(w.last, b...)
	if n := len(w.last) - maxWords; n > 0 {
		w.last = append(w.last[:0], w.last[n:]...)
	}
	return len(b), nil
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(w.last), "?"))
}
