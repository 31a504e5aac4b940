// Package proof shows that tasks are sound: that the gold solution passes, that
// doing nothing does not, that the solution lies nowhere an agent could read it,
// and, at the full level, that no cheat of a battery passes. It runs jobs and
// reads what they left; it decides nothing about a single trial, and changes
// nothing of a task but the proof beside it.
package proof

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"assay/internal/image"
	"assay/internal/leak"
	"assay/trial"
)

// Level says how much was shown.
type Level string

const (
	// Quick is for every task: gold in fresh copies and in another order, doing
	// nothing, an empty diff, headroom, leaks.
	Quick Level = "quick"
	// Full is Quick, gold more often, and the whole battery of cheats on the
	// task or on others of its verifier class.
	Full Level = "full"
)

// File is a proof's name beside task.toml. It is no part of the task's digest.
const File = "proof.json"

// Proof is what was shown of a task, and under which conditions.
type Proof struct {
	V      int         `json:"v"` // 2
	Level  Level       `json:"level"`
	Local  bool        `json:"local,omitempty"` // on the image "host": it says nothing about other machines
	Task   string      `json:"task"`
	Digest string      `json:"task_digest"`
	Image  string      `json:"image"`
	Modes  trial.Modes `json:"modes"`
	// Evidence is what a verdict on this task rests on.
	Evidence trial.Evidence `json:"evidence,omitempty"`
	Class    string         `json:"class,omitempty"` // the verifier class that the battery was tried on
	Attacks  *Attacks       `json:"attacks,omitempty"`

	Proved  bool     `json:"proved"`
	Lost    bool     `json:"lost,omitempty"`    // no verdict, because infrastructure failed
	Reasons []string `json:"reasons,omitempty"` // why it is not proved
	Notes   []string `json:"notes,omitempty"`   // what was not looked at, and hints

	Runs     []Run          `json:"runs"`
	Unstable []string       `json:"unstable,omitempty"` // check ids that gold passed in some runs only
	Headroom *Headroom      `json:"headroom,omitempty"`
	Leaks    []leak.Finding `json:"leaks,omitempty"`
	ProvedAt time.Time      `json:"proved_at"`
	By       string         `json:"by"` // assay's version
}

// Run is one of the runs a proof rests on.
type Run struct {
	Agent   string        `json:"agent"`
	Outcome trial.Outcome `json:"outcome"`
	Cause   trial.Cause   `json:"cause"`
	Millis  float64       `json:"ms"`
}

// Headroom is what gold's grading took of what it may take, the worst run.
type Headroom struct {
	TestsMillis float64  `json:"tests_ms"`
	LimitMillis float64  `json:"tests_limit_ms"` // the verifier's timeout
	RSSBytes    *int64   `json:"max_rss_bytes"`
	LimitBytes  *int64   `json:"memory_limit_bytes"` // null: none
	TimeShare   float64  `json:"time_share"`
	MemShare    *float64 `json:"memory_share"`
}

// Attacks sum up the battery.
type Attacks struct {
	Tried    int      `json:"tried"`
	Passed   []string `json:"passed,omitempty"`   // cheats that were taken for a solution
	Residual []string `json:"residual,omitempty"` // the same, of those that are known to pass
	Lost     []string `json:"lost,omitempty"`     // cheats without a verdict
	Sampled  []string `json:"sampled,omitempty"`  // the tasks of the class that it was tried on
	Seed     uint64   `json:"seed"`
}

// Shares of a limit beyond which gold has too little headroom: on a machine
// twice as slow it would fail.
const (
	maxTimeShare = 0.5
	maxMemShare  = 0.8
)

// maxProof is more than a proof takes, in bytes.
const maxProof = 4 << 20

// Read reads a task's proof; false if it has none of this content. proof.json
// comes with the task and may hold anything.
func Read(dir image.HostPath, digest string) (Proof, bool) {
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return Proof{}, false
	}
	defer root.Close()
	f, err := root.OpenFile(File, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold anybody up
	if err != nil {
		return Proof{}, false
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return Proof{}, false
	}
	b, err := io.ReadAll(io.LimitReader(f, maxProof))
	var p Proof
	if err != nil || json.Unmarshal(b, &p) != nil || !p.Proved || p.Digest != digest {
		return Proof{}, false
	}
	return p, true
}

// Words is the level as tables say it: "proved (quick, local)".
func (p Proof) Words() string {
	switch {
	case !p.Proved:
		return "not proved"
	case p.Local:
		return fmt.Sprintf("proved (%s, local)", p.Level)
	}
	return fmt.Sprintf("proved (%s)", p.Level)
}

// save writes proof.json atomically, or removes it when the task is not
// proved: a proof that no longer holds must not stay.
func (p Proof) save(dir string) error {
	if p.Lost {
		return nil
	}
	if !p.Proved {
		if err := os.Remove(filepath.Join(dir, File)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove the stale proof: %w", err)
		}
		return nil
	}
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(dir, File), append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write proof: %w", err)
	}
	return nil
}
