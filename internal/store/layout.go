package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names inside a job directory. Those without a leading dot are Harbor's, but
// for the events.
const (
	EventsFile  = "events.ndjson"
	ConfigFile  = "config.json"
	LockFile    = "lock.json"
	ResultFile  = "result.json"
	LogFile     = "job.log"
	AttemptsDir = ".attempts" // replaced and dropped attempts: <trial>.<attempt>
	StatesDir   = ".states"
	ReportDir   = ".report"
	writerFile  = ".lock" // flock(2)ed by the one writer, holds its pid
)

// Names inside a trial directory; in a multi-step trial they stand below
// steps/<name>/ but for the first three.
const (
	ExceptionFile   = "exception.txt"
	TrialLogFile    = "trial.log"
	StepsDir        = "steps"
	AgentDir        = "agent"
	VerifierDir     = "verifier"
	ArtifactsDir    = "artifacts"
	TrajectoryFile  = "agent/trajectory.json"
	DiffFile        = "agent/workspace.diff"
	TestOutputFile  = "verifier/test-stdout.txt"
	RewardJSONFile  = "verifier/reward.json"
	RewardTextFile  = "verifier/reward.txt"
	RewardNotesFile = "verifier/reward-details.json"
	ManifestFile    = "artifacts/manifest.json"
)

// trialLetters is the alphabet of the random part of a trial's name, Harbor's:
// no letter or digit that is read as another.
const trialLetters = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// TrialName makes a new name for a trial of a task, as Harbor does: the last
// part of the task's name cut to 32 characters, trailing _ and - stripped, two
// underscores and 7 random characters.
func TrialName(task string) string {
	return trialStem(task) + "__" + randomText(7)
}

func trialStem(task string) string {
	last := task[strings.LastIndexByte(task, '/')+1:]
	clean := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r == filepath.Separator || unicode.IsControl(r) {
			return '-'
		}
		return r
	}, last)
	if r := []rune(clean); len(r) > 32 {
		clean = string(r[:32])
	}
	clean = strings.TrimLeft(strings.TrimRight(clean, "_-"), ".") // dot names are assay's own
	if clean == "" {
		return "task"
	}
	return clean
}

func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	for i := range b {
		b[i] = trialLetters[int(b[i])%len(trialLetters)]
	}
	return string(b)
}

// NewID makes a random UUID (version 4).
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// FileURI is the file URI of a host path, made absolute.
func FileURI(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// Digest is the sha256 digest of b as events name it.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// goodTrialName refuses names that assay could not have made and that a
// directory entry, a URL or a terminal line could not hold safely.
func goodTrialName(name string) error {
	switch {
	case name == "" || len(name) > 255:
		return fmt.Errorf("trial name of %d bytes", len(name))
	case strings.HasPrefix(name, "."):
		return fmt.Errorf("trial name %q begins with a dot", name)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("trial name %q holds control characters", name)
	case strings.ContainsAny(name, `/\`):
		return fmt.Errorf("trial name %q holds a separator", name)
	}
	return nil
}

// attemptName is the name below [AttemptsDir] of one attempt.
func attemptName(trial string, attempt int) string { return fmt.Sprintf("%s.%d", trial, attempt) }
