package docker

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"assay/internal/sandbox"
)

// check passes a tree's tar stream on, entry by entry, and refuses what no tree
// holds: the stream comes out of a container, whose programs may be hostile.
func check(in io.Reader, out io.Writer, maxBytes int64) error {
	tr, tw := tar.NewReader(in), tar.NewWriter(out)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := checkHeader(h); err != nil {
			return err
		}
		if maxBytes > 0 && h.Size > maxBytes {
			return fmt.Errorf("%.200q: %w", h.Name, sandbox.ErrTooLarge)
		}
		if maxBytes > 0 {
			maxBytes -= h.Size
			if maxBytes == 0 {
				maxBytes = -1 // 0 means no cap
			}
		} else if maxBytes < 0 && h.Size > 0 {
			return fmt.Errorf("%.200q: %w", h.Name, sandbox.ErrTooLarge)
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(tw, tr); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	return tw.Close()
}

func checkHeader(h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo:
	default:
		return fmt.Errorf("the sandbox sent %.200q of type %q", h.Name, h.Typeflag)
	}
	names := []string{h.Name}
	if h.Typeflag == tar.TypeLink {
		names = append(names, h.Linkname)
	}
	for _, n := range names {
		p := strings.TrimSuffix(n, "/")
		if p == "" || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") {
			return fmt.Errorf("the sandbox sent the name %.200q", n)
		}
	}
	if h.Typeflag != tar.TypeReg && h.Size != 0 {
		return errors.New("the sandbox sent content of what has none")
	}
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	return nil
}
