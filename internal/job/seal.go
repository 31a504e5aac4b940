package job

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"assay/internal/image"
	"assay/task"
)

// SealFile is a seal's name beside task.toml. It is no part of the task's digest.
const SealFile = "seal.json"

// Seal says what a task's verifier installs: layers, made once with a network,
// which lie above everything else when the task is graded offline.
type Seal struct {
	V        int             `json:"v"` // 1
	Task     string          `json:"task"`
	Digest   string          `json:"task_digest"`
	Image    string          `json:"image"`  // that they were made on
	Name     string          `json:"name"`   // of the image in the store that keeps the layers
	Layers   []image.LayerID `json:"layers"` // bottom first
	Said     int             `json:"said"`   // answers of programs that are given again
	SealedAt time.Time       `json:"sealed_at"`
	By       string          `json:"by"` // assay's version
}

// SealDir is where a seal's layers keep its programs.
const SealDir = "/opt/assay-seal"

// maxSeal is more than a seal takes, in bytes.
const maxSeal = 1 << 20

// ReadSeal reads the seal beside a task; nil if there is none that can be read.
// seal.json comes with the task and may hold anything.
func ReadSeal(dir image.HostPath) *Seal {
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return nil
	}
	defer root.Close()
	f, err := root.OpenFile(SealFile, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold anybody up
	if err != nil {
		return nil
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSeal))
	var s Seal
	if err != nil || json.Unmarshal(b, &s) != nil || s.V != 1 || len(s.Layers) == 0 {
		return nil
	}
	return &s
}

// sealed reports whether a task has a seal for what it is now.
func (c Config) sealed(t *task.Task) bool {
	s := ReadSeal(image.HostPath(t.Dir))
	if s == nil {
		return false
	}
	digest, err := task.Digest(t.Dir)
	return err == nil && s.Digest == digest
}

// findSeal takes the task's seal if it is one for this task on this image, and
// says aloud why not.
func (a *attempt) findSeal() {
	s := ReadSeal(image.HostPath(a.p.task.Dir))
	if s == nil {
		return
	}
	missing := func(id image.LayerID) bool { _, err := a.r.deps.Images.Manifest(id); return err != nil }
	why := ""
	switch {
	case s.Digest != a.p.digest:
		why = "it is of another version of the task"
	case s.Image != string(a.image.ID):
		why = "it was made on another image"
	case a.verifierMode(a.p.task.Key(0)) == task.VerifierLive:
		why = "the verifier runs where the agent ran"
	case slices.ContainsFunc(s.Layers, missing):
		why = "its layers are not on this machine"
	}
	if why != "" {
		a.note(fmt.Sprintf("%s is not used: %s ('assay task seal' makes it)", SealFile, why))
		return
	}
	a.seal = s
	a.rec.Modes.Seal = s.Name
}

// sealEnv leads a verifier's programs to what was sealed, and keeps package
// managers from asking servers that are not there.
func (a *attempt) sealEnv() []string {
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, kv := range slices.Concat(a.image.Config.Env, a.env) {
		if len(kv) > 5 && kv[:5] == "PATH=" {
			path = kv[5:]
		}
	}
	return []string{
		"PATH=" + SealDir + "/bin:" + path, "ASSAY_SEAL=play",
		"UV_OFFLINE=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "npm_config_offline=true", "GOPROXY=off", "CARGO_NET_OFFLINE=true", "HF_HUB_OFFLINE=1",
	}
}
