package grade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/trial"
)

// What a verifier may leave in /logs/verifier. Reward files are read even
// where the rest is too much.
const (
	maxReward    = 1 << 20
	maxLogs      = 128 << 20
	maxLogsFiles = 10_000
)

// ownRecords are the grader's own files in verifier/. A test script, and the work
// that it runs, has no say in them.
var ownRecords = []string{VerdictFile, EvidenceFile, TestStdout, "egress.ndjson"}

// collectRewards copies /logs/verifier to the host and reads the rewards in
// it. The verifier's processes are dead. A *RewardError says that there are no
// rewards to count.
func (r Request) collectRewards(ctx context.Context, sb sandbox.Trees) (map[string]json.Number, []string, error) {
	var notes []string
	k := keep{bytes: maxLogs, files: r.LogFiles, fresh: true, own: ownRecords}
	got, err := k.tree(ctx, sb, "/"+verifierDir, string(r.Out))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, &RewardError{trial.CauseRewardMissing, RewardText, "there is no /" + verifierDir + " any more"}
	case errors.Is(err, sandbox.ErrTooLarge):
		notes = append(notes, fmt.Sprintf("the verifier left more than %d MiB in /%s: only rewards were kept", maxLogs>>20, verifierDir))
	case err != nil:
		return nil, nil, fmt.Errorf("read /%s: %w", verifierDir, err)
	}
	if n := got.note("/" + verifierDir); n != "" {
		notes = append(notes, n)
	}
	if err != nil || got.over > 0 {
		if err := r.rewardsAlone(ctx, sb); err != nil {
			return nil, notes, err
		}
	}
	rewards, err := readRewards(string(r.Out))
	return rewards, notes, err
}

// rewardsAlone copies the reward files that a capped copy may have missed.
func (r Request) rewardsAlone(ctx context.Context, sb sandbox.Trees) error {
	for _, name := range []string{RewardJSON, RewardText, Details} {
		at := filepath.Join(string(r.Out), name)
		if _, err := os.Lstat(at); err == nil {
			if err := os.RemoveAll(at); err != nil { // it may be half of a copy that was cut
				return err
			}
		}
		b, err := getFile(ctx, sb, image.Path("/"+verifierDir+"/"+name), maxReward)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.Is(err, sandbox.ErrTooLarge):
			b = make([]byte, maxReward+1) // read as larger than the cap
		case err != nil:
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := os.WriteFile(at, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readRewards reads the rewards in a directory of the host, reward.json before
// reward.txt.
func readRewards(dir string) (map[string]json.Number, error) {
	for _, f := range []struct {
		name  string
		parse func([]byte) (map[string]json.Number, error)
	}{{RewardJSON, ParseRewardJSON}, {RewardText, ParseRewardText}} {
		info, err := os.Lstat(filepath.Join(dir, f.name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, malformed(f.name, "it is a directory")
		case info.Size() > maxReward:
			return nil, malformed(f.name, "larger than %d bytes", maxReward)
		}
		b, err := readHostFile(dir, f.name, maxReward)
		if err != nil {
			return nil, err
		}
		return f.parse(b)
	}
	return nil, &RewardError{trial.CauseRewardMissing, RewardText, "the verifier wrote neither " + RewardJSON + " nor " + RewardText}
}

// clearRewards removes what an earlier grading left in the trial's directory.
func clearRewards(dir string) error {
	for _, name := range []string{RewardJSON, RewardText, Details, TestStdout, VerdictFile, EvidenceFile} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
