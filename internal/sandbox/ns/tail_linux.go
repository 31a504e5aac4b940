package ns

import (
	"io"
	"strings"
	"sync"
)

// tail keeps the last bytes of what is written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

var _ io.Writer = (*tail)(nil)

const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailSize {
		t.b = append([]byte(nil), t.b[len(t.b)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}
