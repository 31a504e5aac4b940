package job

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"assay/internal/grade"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// unreached are words by which programs say that a server did not answer. The
// candidate can print them too, so they are a hint for people and no verdict.
var unreached = regexp.MustCompile(`(?i)could not resolve host|temporary failure in name resolution|temporary failure resolving|name or service not known|nodename nor servname|getaddrinfo|\benotfound\b|\beai_again\b|network is unreachable|\benetunreach\b|connection refused|\beconnrefused\b|failed to connect to|failed to establish a new connection|no address associated with hostname`)

// hintOffline says aloud that a verifier which did not find the task solved
// speaks of servers that it did not reach.
func (a *attempt) hintOffline(step string, key task.Key, v grade.Verdict) {
	if v.Cause == trial.CauseSolved || key.Mode == task.VerifierLive && v.Mode == task.VerifierLive {
		return
	}
	if n, _, _ := a.verifierReach(key); n != sandbox.NetNone {
		return
	}
	f, err := os.Open(filepath.Join(a.stepDir(step, "verifier"), grade.TestStdout))
	if err != nil {
		return
	}
	defer f.Close()
	const look = 1 << 20
	b, err := io.ReadAll(io.LimitReader(f, look))
	if err != nil {
		return
	}
	if at := unreached.FindIndex(b); at != nil {
		line := b[bytes.LastIndexByte(b[:at[0]], '\n')+1:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i]
		}
		a.note("the verifier had no network and no server of the agent's, and says: " + cut(string(bytes.ToValidUTF8(bytes.TrimSpace(line), nil)), 160) +
			"; if it needs them, 'assay task adapt' finds the modes in which gold passes")
	}
}
