package leak

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/image"
)

// objectFile is what of a repository's objects directory is read: loose
// objects and packs. Its info/ may name directories of this machine.
var objectFile = regexp.MustCompile(`^(([0-9a-f]{2})/[0-9a-f]{38,62}|pack/pack-[0-9a-f]{40,64}\.(pack|idx))$`)

// maxRepository is how much of one repository's objects is copied.
const maxRepository = 2 << 30

// repository looks at all objects below an objects directory, reachable or not.
func (w *walk) repository(ctx context.Context, v *image.View, dir string) error {
	tmp, err := os.MkdirTemp("", "assay-leak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	n, err := copyObjects(v, dir, filepath.Join(tmp, "objects"))
	if err != nil || n == 0 {
		return err
	}
	if w.s.Git == "" {
		w.note("/%s: git's objects were not looked at: there is no git here", dir)
		return nil
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": "[core]\n\tbare = true\n\trepositoryformatversion = 0\n"} {
		if err := os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(tmp, "refs"), 0o700); err != nil {
		return err
	}
	if err := w.objects(ctx, tmp, dir); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.note("/%s: git's objects were not all looked at: %v", dir, err)
	}
	return nil
}

// objects runs git in a repository of ours that holds only the objects.
func (w *walk) objects(ctx context.Context, repo, dir string) error {
	cmd := exec.CommandContext(ctx, w.s.Git, "--git-dir="+repo, "cat-file", "--batch-all-objects", "--batch", "--buffer")
	cmd.Dir = repo
	cmd.Env = []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME=" + repo, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = w.batch(bufio.NewReaderSize(out, 256<<10), dir)
	out.Close() // git ends if it has more to say
	if e := cmd.Wait(); err == nil && e != nil {
		err = e
	}
	return err
}

// batch reads what cat-file --batch prints: "NAME TYPE SIZE", the bytes, a newline.
func (w *walk) batch(r *bufio.Reader, dir string) error {
	for {
		head, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		f := strings.Fields(head)
		if len(f) != 3 {
			return fmt.Errorf("git says %q", strings.TrimSpace(head))
		}
		size, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil || size < 0 {
			return fmt.Errorf("git says %q", strings.TrimSpace(head))
		}
		body := io.LimitReader(r, size)
		if f[1] != "tree" && size <= maxFile {
			if err := w.file(dir, f[1]+" "+f[0][:min(12, len(f[0]))], body, 1); err != nil {
				return err
			}
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
		if _, err := r.Discard(1); err != nil {
			return err
		}
	}
}

// copyObjects copies object files, and nothing else, and counts them.
func copyObjects(v *image.View, dir, to string) (int, error) {
	n, left := 0, int64(maxRepository)
	err := v.Walk(dir, func(e image.Entry) error {
		rel := trimmed(e.Path, dir)
		if e.Type != image.TypeFile || !objectFile.MatchString(rel) || e.Size > left {
			return nil
		}
		left -= e.Size
		n++
		at := filepath.Join(to, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		src, err := v.Open(e.Path)
		if err != nil {
			return err
		}
		defer src.Close()
		dst, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(dst, src)
		if e := dst.Close(); err == nil {
			err = e
		}
		return err
	})
	return n, err
}
