package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// scrubbed stands where a secret stood, cut or drawn out to its length: what
// counts bytes (a database's pages, a record's offsets) stays readable.
const scrubbed = "[key-removed]"

// masked is as long as the secret.
func masked(secret string) string {
	if len(secret) <= len(scrubbed) {
		return strings.Repeat("*", len(secret))
	}
	return scrubbed + strings.Repeat("*", len(secret)-len(scrubbed))
}

// ScrubText replaces every literal occurrence of secret. An empty one is none.
func ScrubText(text, secret string) string {
	if secret == "" {
		return text
	}
	return strings.ReplaceAll(text, secret, masked(secret))
}

// ScrubFile does so in place; the file keeps its length. f must be open for
// reading and writing, and nobody else may write to it.
func ScrubFile(f *os.File, secret string) error {
	if secret == "" {
		return nil
	}
	const piece = 1 << 20
	mask, key := []byte(masked(secret)), []byte(secret)
	buf := make([]byte, piece+len(key)-1)
	for at := int64(0); ; {
		n, err := f.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("scrub %s: %w", f.Name(), err)
		}
		for from := 0; ; {
			i := bytes.Index(buf[from:n], key)
			if i < 0 {
				break
			}
			if _, err := f.WriteAt(mask, at+int64(from+i)); err != nil {
				return fmt.Errorf("scrub %s: %w", f.Name(), err)
			}
			copy(buf[from+i:], mask)
			from += i + len(key)
		}
		if n < len(buf) {
			return nil
		}
		at += piece // the last bytes, less than a key, are read again
	}
}
