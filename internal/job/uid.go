package job

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// uidChoice is the uid mode of a task's trials, agent and verifier alike, and
// of the RUNs of its image.
type uidChoice struct {
	mode sandbox.UIDMode
	note string // to be said aloud; empty: nothing
}

// chooseUIDs decides each task's mode: the one the user names, else the one the
// task was proved in, else the backend's first. A mode that the backend lacks
// is an error where the user named it.
func (r *run) chooseUIDs(digests map[string]string) error {
	c := r.can
	if r.cfg.UID != "" && !slices.Contains(c.UIDModes, r.cfg.UID) {
		return fmt.Errorf("uid mode %q: backend %s offers %v here ('assay doctor' says more): %w", r.cfg.UID, c.Name, c.UIDModes, sandbox.ErrUnsupported)
	}
	r.uids = map[string]uidChoice{}
	for _, t := range r.cfg.Tasks {
		proved := provedMode(t, digests[t.Name])
		r.uids[t.Name] = chooseUID(r.cfg.UID, proved, c.UIDModes)
	}
	return nil
}

func chooseUID(asked, proved sandbox.UIDMode, modes []sandbox.UIDMode) uidChoice {
	var c uidChoice
	switch alike := sameOwners(proved, modes); {
	case asked != "":
		c.mode = asked
	case alike != "":
		c.mode = alike
	case len(modes) > 0:
		c.mode = modes[0]
	}
	if proved != "" && proved != c.mode {
		c.note = fmt.Sprintf("the task was proved in uid mode %s and runs in %s", proved, c.mode)
	}
	return c
}

// sameOwners finds a mode in which programs see what they saw in the one of a
// proof. Whoever gives the ids, root or /etc/subuid, they are the same inside.
func sameOwners(proved sandbox.UIDMode, modes []sandbox.UIDMode) sandbox.UIDMode {
	alike := []sandbox.UIDMode{proved}
	switch proved {
	case sandbox.UIDRoot:
		alike = append(alike, sandbox.UIDSub)
	case sandbox.UIDSub:
		alike = append(alike, sandbox.UIDRoot)
	}
	for _, m := range alike {
		if m != "" && slices.Contains(modes, m) {
			return m
		}
	}
	return ""
}

// maxProof is more than a proof of a few runs takes, in bytes.
const maxProof = 1 << 20

// provedMode is the mode of a task's proof; empty if it has none, or one of
// other content. proof.json comes with the task and may hold anything.
func provedMode(t *task.Task, digest string) sandbox.UIDMode {
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	f, err := root.OpenFile("proof.json", os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold anybody up
	if err != nil {
		return ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, maxProof))
	var p struct { // what of internal/proof's form is needed here
		Digest string      `json:"task_digest"`
		Modes  trial.Modes `json:"modes"`
		Proved bool        `json:"proved"`
	}
	if err != nil || json.Unmarshal(b, &p) != nil || !p.Proved || p.Digest != digest {
		return ""
	}
	switch m := sandbox.UIDMode(p.Modes.UID); m {
	case sandbox.UIDSingle, sandbox.UIDSub, sandbox.UIDRoot:
		return m
	}
	return ""
}
