package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sync/errgroup"
)

const (
	// MaxInlined is the number of trials up to which a report is one page;
	// past it the details lie in a folder beside it.
	MaxInlined = 200

	pageRoom    = 2 << 20  // bytes of text on a trial's own page
	inlinedRoom = 24 << 20 // bytes of text of all trials in one page together
	maxRoom     = 1 << 20  // of one inlined trial
)

// Written says where a report is.
type Written struct {
	Page   string // the page to open
	Folder string // of the trials' pages; empty when the page holds them
	Trials int
	Bytes  int64 // of Page
}

// Report writes j as a page that needs nothing but itself to the file out, and
// past [MaxInlined] trials one more such page for each of them into the folder
// beside it, named after out. It is complete or not there: out is renamed into
// place after everything else was written.
func Report(ctx context.Context, j *Job, out string) (Written, error) {
	w := Written{Page: out, Trials: len(j.Trials)}
	p, err := newPages()
	if err != nil {
		return w, err
	}
	page := newJobPage(j, Filter{})
	page.Head = p.inlined(j.Name)
	if len(j.Trials) > MaxInlined {
		w.Folder = strings.TrimSuffix(out, filepath.Ext(out)) + "-trials"
		page.Links.folder = filepath.Base(w.Folder)
		err = p.writeFolder(ctx, j, w.Folder, "../"+filepath.Base(out))
	} else {
		page.Inlined, err = inlined(ctx, j)
	}
	if err != nil {
		return w, fmt.Errorf("write report %s: %w", out, err)
	}
	w.Bytes, err = writeWhole(out, func(to io.Writer) error { return p.render(to, "job", page) })
	if err != nil {
		return w, fmt.Errorf("write report %s: %w", out, err)
	}
	return w, nil
}

// inlined reads the details of every trial, sharing the page's room evenly.
func inlined(ctx context.Context, j *Job) ([]trialPage, error) {
	all := make([]trialPage, len(j.Trials))
	room := min(maxRoom, inlinedRoom/max(1, len(all)))
	err := eachTrial(ctx, j, func(i int, t *Trial) error {
		all[i] = trialPage{Job: j.Name, Links: links{back: "#main"}, Detail: j.detail(t, room)}
		return nil
	})
	return all, err
}

// detail reads a trial's details, as far as the report may show them.
func (j *Job) detail(t *Trial, room int) Detail {
	d := readDetail(t, room)
	if j.Bare {
		return d.withoutCode()
	}
	return d
}

func (p *pages) writeFolder(ctx context.Context, j *Job, folder, back string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return eachTrial(ctx, j, func(_ int, t *Trial) error {
		tp := trialPage{
			Head: p.inlined(t.Name + " · " + j.Name), Links: links{back: back}, Job: j.Name,
			Detail: j.detail(t, pageRoom),
		}
		_, err := writeWhole(filepath.Join(folder, slug(t.Name)+".html"), func(to io.Writer) error {
			return p.render(to, "trial", tp)
		})
		return err
	})
}

// eachTrial runs f for all trials, as many at a time as there are processors.
func eachTrial(ctx context.Context, j *Job, f func(i int, t *Trial) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, t := range j.Trials {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return f(i, t)
		})
	}
	return g.Wait()
}

// writeWhole makes a file that is complete or as it was.
func writeWhole(path string, f func(io.Writer) error) (size int64, err error) {
	tmp, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if err != nil {
		return 0, err
	}
	defer tmp.Cleanup()
	b := bufio.NewWriterSize(tmp, 64<<10)
	if err := errors.Join(f(b), b.Flush()); err != nil {
		return 0, err
	}
	if size, err = tmp.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	return size, tmp.CloseAtomicallyReplace()
}
