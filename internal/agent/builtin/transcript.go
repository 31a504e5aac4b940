package builtin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/agent"
)

// maxTranscript bounds the file for people, in bytes; the gateway's record and
// the trajectory have all of it.
const maxTranscript = 16 << 20

// transcript is the run as a text for people. It is used by one goroutine; its
// first error is told at the end.
type transcript struct {
	f    *os.File
	left int
	err  error
}

func openTranscript(s agent.Session, name string) (*transcript, error) {
	if err := os.MkdirAll(string(s.Logs), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(string(s.Logs), name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return &transcript{f: f, left: maxTranscript}, err
}

func (t *transcript) say(who, text string) {
	entry := fmt.Sprintf("── %s\n%s\n\n", strings.ToValidUTF8(strings.ReplaceAll(who, "\n", `\n`), "\ufffd"), strings.ToValidUTF8(strings.TrimRight(text, "\n"), "\ufffd"))
	if t.err != nil || t.left <= 0 {
		return
	}
	if t.left -= len(entry); t.left <= 0 {
		entry = "── the transcript ends here: it is too long\n"
	}
	_, t.err = t.f.WriteString(entry)
}

// Close closes the file.
func (t *transcript) Close() error { return errors.Join(t.err, t.f.Close()) }
