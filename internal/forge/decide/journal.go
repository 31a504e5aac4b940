package decide

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"assay/internal/repo"
)

// journal is a file of verdicts, a line each: appended as they come, so that a
// process that ends at any moment loses none but the one being written.
type journal struct {
	ground string
	mu     sync.Mutex
	f      *os.File
	seen   map[string]Verdict
}

// entry is a line of a journal.
type entry struct {
	Ground string  `json:"ground"`
	Key    string  `json:"key"`
	V      Verdict `json:"verdict"`
}

const maxLine = 1 << 20 // bytes of a verdict's line

// ground digests what a verdict rests on beside the change: the healthy image,
// the stable tests with what they cover, the commands and the policy.
func ground(c Config) string {
	h := sha256.New()
	enc := json.NewEncoder(h) // of plain data: it cannot fail
	_ = enc.Encode([]any{2, c.Env.Tag, c.Env.Layers, c.Env.Workdir, c.Policy, c.Env.Suite.Files, c.Env.Suite.Static, c.Env.Suite.Ranges, c.Once})
	for _, cmd := range c.Env.Suite.Commands {
		cmd.BaselineMillis = 0 // a time is no ground
		_ = enc.Encode(cmd)
	}
	for _, t := range c.Env.Suite.Tests {
		if t.Stability == repo.Stable {
			_ = enc.Encode([]any{t.Command, t.ID, t.Covers, t.Lines})
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// changeKey digests a change's content.
func changeKey(ch Change) string {
	var names []string
	for p := range ch.Files {
		names = append(names, p)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, p := range names {
		fmt.Fprintf(h, "%d %q %d\n", len(p), p, len(ch.Files[p]))
		h.Write(ch.Files[p])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func openJournal(path, ground string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("decide: journal: %w", err)
	}
	j := &journal{ground: ground, f: f, seen: map[string]Verdict{}}
	if err := j.load(); err != nil {
		f.Close()
		return nil, fmt.Errorf("decide: journal %s: %w", path, err)
	}
	return j, nil
}

// load reads what is whole and cuts a torn end off.
func (j *journal) load() error {
	r, whole := bufio.NewReaderSize(j.f, 64<<10), int64(0)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		whole += int64(len(line))
		var e entry
		if len(line) > maxLine || json.Unmarshal(bytes.TrimSpace(line), &e) != nil || e.Ground != j.ground {
			continue // another environment's, or damaged: decided anew
		}
		j.seen[e.Key] = e.V
	}
	if err := j.f.Truncate(whole); err != nil {
		return err
	}
	_, err := j.f.Seek(whole, io.SeekStart)
	return err
}

func (j *journal) get(key string) (Verdict, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	v, ok := j.seen[key]
	return v, ok
}

func (j *journal) put(key string, v Verdict) error {
	b, err := json.Marshal(entry{j.ground, key, v})
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen[key] = v
	if _, err := j.f.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("decide: journal: %w", err)
	}
	return nil
}

func (j *journal) close() error {
	err := j.f.Close()
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}
