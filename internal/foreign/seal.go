// Package foreign fits tasks that were written for weaker rules to assay's: it
// finds the strictest modes in which their gold solution passes and writes them
// down, and seals what their verifiers install into a layer, so that they are
// graded offline from then on. It never loosens a mode by itself at a run, and
// changes nothing of a task but the keys that it says it writes, and its seal.
package foreign

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"assay/internal/image"
	"assay/internal/job"
	"assay/task"
)

//go:embed files/shim files/record
var files embed.FS

// shims are the programs whose success is noted: they fetch or install, and
// have nothing of their own that makes them content offline.
func shims() []string {
	return []string{"add-apt-repository", "apk", "apt", "apt-get", "curl", "dnf", "git", "microdnf", "wget", "yum"}
}

// SealConfig asks for the seal of one task.
type SealConfig struct {
	Task  *task.Task
	Image image.Image // that the task is graded on
	Store *image.Store
	Build func(ctx context.Context, r job.BuildRequest) (image.Image, error) // with the network that installing needs
	Env   func(string) (string, bool)
	Dir   image.HostPath // for the build's context; the caller removes it
	By    string         // assay's version
}

// ErrNothing means that the verifier changed nothing that could be sealed.
var ErrNothing = errors.New("the verifier installs nothing")

// MakeSeal runs the task's verifier once with a network, where nothing has been
// solved, keeps what it installed as layers, and writes the seal beside the task.
func MakeSeal(ctx context.Context, c SealConfig) (*job.Seal, error) {
	s, err := c.seal(ctx)
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", c.Task.Name, err)
	}
	return s, nil
}

func (c SealConfig) seal(ctx context.Context) (*job.Seal, error) {
	if c.Task.MultiStep() {
		return nil, errors.New("tasks of several steps cannot be sealed: each step's verifier begins where the last one ended")
	}
	key := c.Task.Key(0)
	digest, err := task.Digest(c.Task.Dir)
	if err != nil {
		return nil, err
	}
	if err := c.context(key); err != nil {
		return nil, fmt.Errorf("its build context: %w", err)
	}
	const base = "assay-task"
	built, err := c.Build(ctx, job.BuildRequest{
		Dir: string(c.Dir),
		Resolve: func(ctx context.Context, ref string) (image.Image, error) {
			if ref != base {
				return image.Image{}, fmt.Errorf("image %s is not the task's", ref)
			}
			return c.Image, nil
		},
	})
	if err != nil {
		return nil, err
	}
	layers, said, err := c.keep(ctx, built.Layers[min(len(c.Image.Layers), len(built.Layers)):])
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		return nil, ErrNothing
	}
	s := &job.Seal{
		V: 1, Task: c.Task.Name, Digest: digest, Image: string(c.Image.ID), Layers: layers, Said: said,
		Name:     "assay-seal/" + filepath.Base(c.Task.Dir) + ":" + strings.TrimPrefix(digest, "sha256:")[:12],
		SealedAt: time.Now().UTC(), By: c.By,
	}
	keeper := image.Image{Name: s.Name, Layers: slices.Concat(c.Image.Layers, layers), Config: c.Image.Config}
	if err := c.Store.Put(keeper); err != nil { // so that its layers are reachable
		return nil, err
	}
	return s, write(filepath.Join(c.Task.Dir, job.SealFile), s)
}

// context writes the build context: the tests, our programs, and how they run.
func (c SealConfig) context(key task.Key) error {
	root := string(c.Dir)
	for _, d := range []string{"bin", "tests"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	for _, dir := range key.Tests {
		if err := copyTree(c.Task, dir, filepath.Join(root, "tests")); err != nil {
			return err
		}
	}
	for name, b := range key.TestFiles {
		if err := put(filepath.Join(root, "tests"), name, b, 0o755); err != nil {
			return err
		}
	}
	shim, err := files.ReadFile("files/shim")
	if err != nil {
		return err
	}
	for _, name := range shims() {
		if err := put(root, "bin/"+name, shim, 0o755); err != nil {
			return err
		}
	}
	record, err := files.ReadFile("files/record")
	if err != nil {
		return err
	}
	if err := put(root, "record", record, 0o755); err != nil {
		return err
	}
	env, err := task.ResolveEnv(key.VerifierEnv, c.Env)
	if err != nil {
		return err
	}
	var exports strings.Builder
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		fmt.Fprintf(&exports, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	if err := put(root, "env", []byte(exports.String()), 0o644); err != nil {
		return err
	}
	if !plain(key.Script) {
		return fmt.Errorf("the script's name %q is not plain", key.Script)
	}
	user, workdir := key.User, c.workdir()
	if user == "" {
		user = "root"
	}
	if !plain(user) || strings.ContainsAny(workdir, "\n\r\"\\$") {
		return fmt.Errorf("user %q or working directory %q has characters that a Dockerfile cannot hold plainly", user, workdir)
	}
	return put(root, "Dockerfile", fmt.Appendf(nil,
		"FROM assay-task\nUSER root\nCOPY bin %[1]s/bin\nCOPY record env %[1]s/\nCOPY tests /tests\nRUN mkdir -p %[1]s/said && chmod 777 %[1]s/said\nUSER %[2]s\nWORKDIR %[3]s\nRUN [\"/bin/sh\", \"%[1]s/record\", \"%[4]s\"]\n",
		job.SealDir, user, workdir, key.Script), 0o644)
}

func (c SealConfig) workdir() string {
	for _, d := range []string{c.Task.Brief(0).Workdir, string(c.Image.Config.Workdir)} {
		if d != "" {
			return d
		}
	}
	return "/"
}

// plain text stands in a Dockerfile for itself.
func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:", r))
	})
}

// keep makes the layers that lie above a graded tree: without the tests, the
// logs, the working directory, and the values of host variables.
func (c SealConfig) keep(ctx context.Context, made []image.LayerID) (kept []image.LayerID, said int, err error) {
	drop := []string{"tests", "logs", "solution", "tmp", "var/tmp", "proc", "sys", "dev", "opt/assay-seal/env", "opt/assay-seal/record"}
	if w := strings.Trim(path.Clean(c.workdir()), "/"); w != "" && w != "." {
		drop = append(drop, w)
	}
	sealDir := strings.TrimPrefix(job.SealDir, "/")
	for _, id := range made {
		n := 0
		out, err := c.Store.Filter(ctx, id, func(e image.Entry) (image.Entry, bool) {
			if slices.Contains(drop, e.Path) {
				return e, false
			}
			if !e.IsDir() {
				n++
				if path.Dir(e.Path) == sealDir+"/said" {
					said++
				}
			}
			return e, true
		})
		if err != nil {
			return nil, 0, err
		}
		if n > 0 {
			kept = append(kept, out)
		}
	}
	if len(kept) == 1 && said == 0 {
		kept = nil // nothing but our own programs
	}
	return kept, said, nil
}

// copyTree copies what of a test directory is copied for a verifier too. Links
// stay links; nothing is followed.
func copyTree(t *task.Task, from, to string) error {
	names, err := t.Inputs(from)
	if err != nil {
		return err
	}
	src, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	for _, name := range names {
		fi, err := src.Lstat(name)
		if err != nil {
			return err
		}
		switch {
		case fi.IsDir():
			err = dst.MkdirAll(name, 0o755)
		case fi.Mode()&fs.ModeSymlink != 0:
			var target string
			if target, err = src.Readlink(name); err == nil {
				err = dst.Symlink(target, name)
			}
		case fi.Mode().IsRegular() && fi.Size() <= maxTestFile:
			var b []byte
			if b, err = src.ReadFile(name); err == nil {
				err = dst.WriteFile(name, b, fi.Mode().Perm()|0o444)
			}
		default:
			err = fmt.Errorf("%s is not a regular file of at most %d bytes", filepath.Join(from, name), maxTestFile)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxTestFile is the largest file of tests that is sealed, in bytes.
const maxTestFile = 1 << 30

func put(dir, name string, b []byte, mode fs.FileMode) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if d := path.Dir(name); d != "." {
		if err := root.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := root.WriteFile(name, b, mode); err != nil {
		return err
	}
	return root.Chmod(name, mode)
}

// write puts a file of ours beside a task, whole.
func write(file string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(file, append(b, '\n'), 0o644)
}
