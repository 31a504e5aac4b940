package external

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
	"slices"
	"strings"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// What is kept of one run's logs. The agent, and whatever it ran, wrote them.
const (
	maxLogFiles = 2000
	maxLogBytes = 256 << 20 // of all files
	maxLogFile  = 64 << 20  // of one; its beginning is kept
	maxStream   = 1 << 30   // read of one directory to find them
	maxLogPath  = 1000
)

var errEnough = errors.New("enough of the directory was read")

// collector copies files out of a sandbox into a directory of the host. Links
// are not followed, nothing is overwritten, and names stay below the directory.
type collector struct {
	from   sandbox.Trees
	into   *os.Root
	secret string // scrubbed from what is kept

	files   int
	bytes   int64
	skipped int // that matched and were no plain files or had no plain names
	cut     int // longer than maxLogFile
	torn    []string
}

// take copies what the globs name below dir to files below at.
func (c *collector) take(ctx context.Context, dir image.Path, globs []string, at string) error {
	for _, start := range starts(globs) {
		if err := c.tree(ctx, dir, start, globs, at); err != nil {
			return err
		}
	}
	return nil
}

// tree copies what matches of one directory, or one file, that globs begin with.
func (c *collector) tree(ctx context.Context, dir image.Path, start string, globs []string, at string) error {
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	src := image.Path(path.Join(string(dir), start))
	go func() {
		err := c.from.Get(ctx, src, pw, 0)
		pw.CloseWithError(err)
		done <- err
	}()
	stream := &io.LimitedReader{R: pr, N: maxStream}
	err := c.read(tar.NewReader(stream), func(name string) string {
		if name == path.Base(start) && matches(globs, start) {
			return start // a file of its own comes by its base name
		}
		return path.Join(start, name)
	}, globs, at)
	pr.CloseWithError(errEnough)
	got := <-done
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case sandbox.Ended(got):
		return fmt.Errorf("copy %s: %w", src, got)
	case got == nil, errors.Is(got, fs.ErrNotExist), c.full(), stream.N <= 0:
		return nil // notes tell what was too much
	}
	c.torn = append(c.torn, fmt.Sprintf("%s: %v", src, got))
	return nil
}

// read keeps the entries whose names match. Its error is of this machine; a
// stream that cannot be read on just ends.
func (c *collector) read(r *tar.Reader, full func(string) string, globs []string, at string) error {
	for !c.full() {
		h, err := r.Next()
		if err != nil {
			return nil
		}
		name := full(path.Clean(h.Name))
		if h.Typeflag == tar.TypeDir || !matches(globs, name) {
			continue
		}
		if h.Typeflag != tar.TypeReg || !plain(name) {
			c.skipped++
			continue
		}
		if err := c.file(r, path.Join(at, name), h.Size); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) full() bool { return c.files >= maxLogFiles || c.bytes >= maxLogBytes }

func (c *collector) file(r io.Reader, name string, size int64) error {
	local := filepath.FromSlash(name)
	if err := c.into.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return err
	}
	f, err := c.into.OpenFile(local, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	c.files++
	room := min(size, maxLogFile, maxLogBytes-c.bytes)
	n, err := io.Copy(f, io.LimitReader(given{r}, room))
	c.bytes += n
	if n < size {
		c.cut++
	}
	if err != nil {
		return err
	}
	return agent.ScrubFile(f, c.secret)
}

// given ends where its reader fails: what came until then is kept.
type given struct{ r io.Reader }

func (g given) Read(b []byte) (int, error) {
	n, err := g.r.Read(b)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// notes says what was not kept.
func (c *collector) notes() []string {
	var all []string
	say := func(n int, format string) {
		if n > 0 {
			all = append(all, fmt.Sprintf(format, n))
		}
	}
	say(c.skipped, "%d of the agent's logs were no plain files and are left out")
	say(c.cut, "%d of the agent's logs were too long; their beginnings are kept")
	for _, why := range c.torn {
		all = append(all, "the agent's logs are not whole: "+why)
	}
	if c.full() {
		all = append(all, fmt.Sprintf("the agent's logs were cut at %d files of %d bytes", c.files, c.bytes))
	}
	return all
}

// plain names can stand in any directory of the host and be printed.
func plain(name string) bool {
	return len(name) <= maxLogPath && filepath.IsLocal(filepath.FromSlash(name)) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd || r == '\\' }) &&
		!slices.ContainsFunc(strings.Split(name, "/"), func(s string) bool { return len(s) > 200 })
}

// starts are the directories and files that the globs begin with, none of them
// within another.
func starts(globs []string) []string {
	var all []string
	for _, g := range globs {
		var fixed []string
		for _, s := range strings.Split(g, "/") {
			if strings.ContainsAny(s, `*?[\`) {
				break
			}
			fixed = append(fixed, s)
		}
		all = append(all, path.Join(fixed...)) // "" is the whole directory
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(s string) bool {
		return slices.ContainsFunc(all, func(o string) bool { return o != s && (o == "" || strings.HasPrefix(s, o+"/")) })
	})
}

// matches reports whether a slash-separated name matches one of the globs, in
// which ** stands for any number of names and the rest is path.Match's.
func matches(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		return match(strings.Split(g, "/"), strings.Split(name, "/"))
	})
}

func match(glob, name []string) bool {
	for len(glob) > 0 {
		if glob[0] == "**" {
			for i := range len(name) + 1 {
				if match(glob[1:], name[i:]) {
					return true
				}
			}
			return false
		}
		if len(name) == 0 {
			return false
		}
		if ok, err := path.Match(glob[0], name[0]); err != nil || !ok {
			return false
		}
		glob, name = glob[1:], name[1:]
	}
	return len(name) == 0
}
