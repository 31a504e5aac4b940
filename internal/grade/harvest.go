package grade

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// maxSearch bounds the bytes of a tree that is looked through. A program may
// leave a file of any size that takes no room.
const maxSearch = 4 << 30

// stream reads a part of a sandbox's tree entry by entry. A missing part is
// fs.ErrNotExist. f ends the reading early with errSeen.
func stream(ctx context.Context, sb sandbox.Trees, src image.Path, limit int64, f func(h *tar.Header, r io.Reader) error) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := sb.Get(ctx, src, w, limit)
		w.CloseWithError(err)
		done <- err
	}()
	tr := tar.NewReader(r)
	var err error
	for err == nil {
		var h *tar.Header
		if h, err = tr.Next(); err == nil {
			h.Name = path.Clean(h.Name)
			err = f(h, tr)
		}
	}
	if errors.Is(err, io.EOF) {
		_, err = io.Copy(io.Discard, r) // what follows the end mark
	}
	r.CloseWithError(errSeen)
	getErr := <-done
	if errors.Is(err, errSeen) {
		return nil
	}
	if getErr != nil && (err == nil || errors.Is(err, getErr)) {
		return getErr
	}
	return err
}

// gather reads the files that match a report's pattern. Links are no files.
func gather(ctx context.Context, sb sandbox.Trees, pattern string, found map[string]report.Source) error {
	root, wild := globRoot(pattern)
	if !wild {
		return gatherOne(ctx, sb, pattern, found)
	}
	size := int64(0)
	for _, s := range found {
		size += int64(len(s.Data))
	}
	var twice []string
	err := stream(ctx, sb, image.Path("/"+root), maxSearch, func(h *tar.Header, r io.Reader) error {
		name := path.Join(root, h.Name)
		if !glob(pattern, name) || h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeLink {
			return nil
		}
		if len(found)+len(twice) >= report.MaxSources || size+h.Size > report.MaxBytes {
			return &tooFar{fmt.Sprintf("the report is more than %d files or %d bytes", report.MaxSources, report.MaxBytes)}
		}
		if h.Typeflag == tar.TypeLink { // another name of a file that may lie outside of the pattern
			twice = append(twice, name)
			return nil
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		size += h.Size
		found[name] = report.Source{Name: name, Data: b}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, sandbox.ErrTooLarge):
		return &tooFar{fmt.Sprintf("/%s holds too much to look through for a report: %v", root, err)}
	case err != nil:
		return err
	}
	for _, name := range twice {
		if err := gatherOne(ctx, sb, name, found); err != nil {
			return err
		}
	}
	return nil
}

// gatherOne reads one file, or all of a directory that a pattern names.
func gatherOne(ctx context.Context, sb sandbox.Trees, name string, found map[string]report.Source) error {
	b, err := getFile(ctx, sb, image.Path("/"+name), report.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, sandbox.ErrTooLarge):
		return &tooFar{fmt.Sprintf("/%s is larger than %d bytes", name, report.MaxBytes)}
	case err != nil:
		return err
	}
	found[name] = report.Source{Name: name, Data: b}
	return nil
}

// seen is what stands at a path after the commands.
type seen struct {
	kind   image.Type
	mode   uint32
	digest string
	link   string
}

func (s seen) is(e image.Entry) bool {
	if s.kind != e.Type {
		return false
	}
	if e.Type == image.TypeSymlink {
		return s.link == e.Link
	}
	return s.digest == e.Digest && s.mode == e.Mode
}

// tampered lists those of the grader's files, by path relative to the root, at
// whose place something else stands. What was added beside them is none of
// them: runners keep caches there.
func tampered(ctx context.Context, sb sandbox.Trees, own map[string]image.Entry) (map[string]bool, error) {
	bad := map[string]bool{}
	for p := range own {
		bad[p] = true // until it is seen
	}
	for _, top := range tops(own) {
		var alone []string
		if _, file := own[top]; file {
			alone = []string{top}
		} else {
			again, err := seenBelow(ctx, sb, top, own, bad)
			if errors.Is(err, sandbox.ErrTooLarge) { // what runs there may leave much beside them
				again, err = ownBelow(own, bad, top), nil
			}
			if err != nil && !isMissing(err) {
				return nil, fmt.Errorf("look at /%s again: %w", top, err)
			}
			alone = again
		}
		for _, p := range alone {
			same, err := seenAlone(ctx, sb, p, own[p])
			if err != nil {
				return nil, fmt.Errorf("look at /%s again: %w", p, err)
			}
			if same {
				delete(bad, p)
			}
		}
	}
	return bad, nil
}

// seenBelow looks at a directory and strikes what is as it was. It returns
// further names of files that may lie outside, which are looked at alone.
func seenBelow(ctx context.Context, sb sandbox.Trees, top string, own map[string]image.Entry, bad map[string]bool) (again []string, err error) {
	err = stream(ctx, sb, image.Path("/"+top), maxSearch, func(h *tar.Header, r io.Reader) error {
		p := path.Join(top, h.Name)
		e, ok := own[p]
		switch {
		case !ok:
			return nil
		case h.Typeflag == tar.TypeLink:
			again = append(again, p)
			return nil
		case h.Typeflag == tar.TypeReg && h.Size != e.Size:
			return nil
		}
		s, err := look(h, r)
		if err == nil && s.is(e) {
			delete(bad, p)
		}
		return err
	})
	return again, err
}

// ownBelow lists what was not seen of a directory.
func ownBelow(own map[string]image.Entry, bad map[string]bool, top string) []string {
	var out []string
	for _, p := range sortedKeys(own) {
		if bad[p] && within(p, top) {
			out = append(out, p)
		}
	}
	return out
}

// seenAlone reports whether one path is as it was.
func seenAlone(ctx context.Context, sb sandbox.Trees, p string, e image.Entry) (same bool, err error) {
	err = stream(ctx, sb, image.Path("/"+p), e.Size+1, func(h *tar.Header, r io.Reader) error {
		if h.Name != path.Base(p) || h.Typeflag == tar.TypeDir {
			return errSeen
		}
		s, err := look(h, r)
		same = s.is(e)
		return err
	})
	if isMissing(err) || errors.Is(err, sandbox.ErrTooLarge) {
		return false, nil
	}
	return same, err
}

// look reads one entry.
func look(h *tar.Header, r io.Reader) (seen, error) {
	s := seen{mode: uint32(h.Mode & 0o7777)}
	switch h.Typeflag {
	case tar.TypeReg:
		s.kind = image.TypeFile
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			return s, err
		}
		s.digest = hexSum(sum.Sum(nil))
	case tar.TypeSymlink:
		s.kind, s.link = image.TypeSymlink, h.Linkname
	case tar.TypeDir:
		s.kind = image.TypeDir
	}
	return s, nil
}

// single is how many files are looked at one by one; more are found in the
// stream of a directory that holds them all.
const single = 32

// tops are the places to look at for all of the files: a directory where many
// stand together, else each alone.
func tops(own map[string]image.Entry) []string {
	var out, rest []string
	byTop := map[string][]string{}
	for _, p := range sortedKeys(own) {
		top := p
		if dirs := above(p); len(dirs) > 0 {
			top = dirs[0]
		}
		byTop[top] = append(byTop[top], p)
	}
	for _, top := range sortedKeys(byTop) {
		if all := byTop[top]; top == testsDir {
			out = append(out, top)
		} else if len(all) <= single {
			rest = append(rest, all...)
		} else {
			out = append(out, commonDir(all))
		}
	}
	return append(out, rest...)
}

// commonDir is the deepest directory that holds all of the paths, of which
// there are two at least.
func commonDir(all []string) string {
	dir := path.Dir(all[0])
	for _, p := range all[1:] {
		for !within(p, dir) {
			dir = path.Dir(dir)
		}
	}
	return dir
}

// maxAsked bounds the bytes of a file that is asserted of.
const maxAsked = 1 << 30

// statOf looks at one path of a resting tree. Missing is fs.ErrNotExist. The
// content of a file of at most limit bytes comes with it.
func statOf(ctx context.Context, sb sandbox.Trees, p string, limit int64) (s seen, head *tar.Header, content []byte, err error) {
	at := image.Path("/" + p)
	err = stream(ctx, sb, at, sandbox.HeadOnly, func(h *tar.Header, r io.Reader) error {
		head = h
		return errSeen
	})
	if err == nil && head == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return s, nil, nil, err
	}
	if head.Typeflag != tar.TypeReg {
		s, err = look(head, nil)
		return s, head, nil, err
	}
	err = stream(ctx, sb, at, maxAsked, func(h *tar.Header, r io.Reader) error {
		var b bytes.Buffer
		keep := &capped{w: &b, left: limit}
		if s, err = look(h, io.TeeReader(r, keep)); err != nil {
			return err
		}
		if keep.dropped == 0 {
			content = b.Bytes()
		}
		return errSeen
	})
	return s, head, content, err
}
