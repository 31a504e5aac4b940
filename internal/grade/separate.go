package grade

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// putArtifacts lets the collected artifacts re-appear in a separate verifier's
// sandbox at their original paths. Nothing lands in /tests or /logs/verifier,
// whatever a task declares: there an artifact would be a verdict.
func (r Request) putArtifacts(ctx context.Context, sb sandbox.Trees) (notes []string, err error) {
	if r.Artifacts == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(string(r.Artifacts))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var taken claims
	for _, a := range artifacts(r.Key) {
		if taken.conflict(a) || serviceOf(a) != mainService {
			continue
		}
		taken = append(taken, a)
		at := hostName(a)
		info, err := root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return notes, err
		}
		left, err := r.putArtifact(ctx, sb, root, at, info, containerPath(a.Source))
		if err != nil {
			return notes, fmt.Errorf("%s: %w", a.Source, err)
		}
		if left > 0 {
			notes = append(notes, fmt.Sprintf("artifact %s: %d entries did not cross to the verifier (links that leave it, special files, tests or rewards)", a.Source, left))
		}
	}
	return notes, nil
}

func (r Request) putArtifact(ctx context.Context, sb sandbox.Trees, root *os.Root, at string, info fs.FileInfo, to image.Path) (left int, err error) {
	base, dst := at, to
	switch {
	case info.IsDir():
	case info.Mode().IsRegular():
		base, dst = "", image.Path(path.Dir(string(to)))
	default:
		return 1, nil // a link in the place of the artifact itself
	}
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		var err error
		left, err = packArtifact(ctx, pw, root, at, base, relative(to))
		pw.CloseWithError(err)
		done <- err
	}()
	putErr := sb.Put(ctx, dst, pr)
	pr.CloseWithError(errSeen)
	if packErr := <-done; packErr != nil && (putErr == nil || errors.Is(putErr, packErr)) {
		return left, packErr
	}
	return left, putErr
}

// packArtifact writes what lies at the name at below root as a tar stream,
// without setid bits, special files and links that leave base; an empty base
// means one file. to is where it will be, relative to the sandbox's root.
func packArtifact(ctx context.Context, w io.Writer, root *os.Root, at, base, to string) (left int, err error) {
	tw := tar.NewWriter(w)
	files, bytes := 0, int64(0)
	err = fs.WalkDir(root.FS(), at, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case p == base:
			return nil
		}
		name, target := path.Base(to), to
		if base != "" {
			name = relativeTo(p, base)
			target = path.Join(to, name)
		}
		if within(target, testsDir) || within(target, verifierDir) || at == "." && p == manifestFile {
			left++
			return skip(d)
		}
		if files++; files > maxArtifactFiles {
			return fmt.Errorf("more than %d entries: %w", maxArtifactFiles, sandbox.ErrTooLarge)
		}
		n, ok, err := packEntry(tw, root, p, name, maxArtifacts-bytes)
		bytes += n
		if !ok && err == nil {
			left++
		}
		return err
	})
	if err != nil {
		return left, err
	}
	return left, tw.Close()
}

// packEntry writes one entry; false means that it does not cross.
func packEntry(tw *tar.Writer, root *os.Root, p, name string, room int64) (n int64, ok bool, err error) {
	info, err := root.Lstat(p)
	if err != nil {
		return 0, false, err
	}
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}
	switch {
	case info.IsDir():
		h.Typeflag = tar.TypeDir
		h.Name += "/"
		return 0, true, tw.WriteHeader(h)
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = root.Readlink(p); err != nil || !staysInside(name, h.Linkname) {
			return 0, false, err
		}
		return 0, true, tw.WriteHeader(h)
	case !info.Mode().IsRegular():
		return 0, false, nil
	case info.Size() > room:
		return 0, false, fmt.Errorf("%s: %w", p, sandbox.ErrTooLarge)
	}
	f, err := root.Open(p)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := tw.WriteHeader(h); err != nil {
		return 0, false, err
	}
	n, err = io.Copy(tw, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size {
		err = fmt.Errorf("%s shrank while it was read", p)
	}
	return n, true, err
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func relativeTo(p, base string) string {
	if base == "." {
		return p
	}
	return p[len(base)+1:]
}

// emptied lists the directories that a separate verifier's image must not show
// anything of its own in: those that an artifact fills.
func (r Request) emptied() []string {
	var dirs []string
	for _, a := range artifacts(r.Key) {
		info, err := os.Lstat(filepath.Join(string(r.Artifacts), filepath.FromSlash(hostName(a))))
		if err == nil && info.IsDir() && serviceOf(a) == mainService && r.Artifacts != "" {
			dirs = append(dirs, relative(containerPath(a.Source)))
		}
	}
	return dirs
}
