package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"assay/internal/image/dockerfile"
)

// narrate lets a build tell of itself as the flags say. The function it returns
// ends that, and may be repeated.
func (c *imageBuildCmd) narrate(a *app, g *grammar, o *dockerfile.Options) (end func()) {
	switch {
	case c.Progress == "quiet":
		return func() {}
	case c.Progress == "auto" && g.JSON:
		o.Events = func(e dockerfile.Event) {
			kind := "image.build.step"
			if e.Kind == dockerfile.EventOutput {
				kind = "image.build.output"
			}
			_ = a.emit(kind, e) // a stdout that is gone is met again at the result
		}
		return func() {}
	case c.Progress == "auto" && a.Terminal:
		p := &buildProgress{w: a.Stderr, columns: a.Columns, stop: make(chan struct{})}
		o.Events = p.event
		p.wg.Go(p.tick)
		return sync.OnceFunc(p.end)
	}
	o.Progress = a.Stderr
	return func() {}
}

// buildProgress redraws the steps that are being done, one line each and one
// for the last output, below those that are done.
type buildProgress struct {
	w       io.Writer
	columns int
	stop    chan struct{}
	wg      sync.WaitGroup

	mu    sync.Mutex // guards all below
	now   []*buildStep
	drawn int // lines
	last  time.Time
}

type buildStep struct {
	dockerfile.Event
	began time.Time
	text  string
}

func (p *buildProgress) event(e dockerfile.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := -1
	for i, s := range p.now {
		if s.Stage == e.Stage {
			at = i
		}
	}
	switch {
	case e.Kind == dockerfile.EventStarted:
		p.now = append(p.now, &buildStep{Event: e, began: time.Now()})
	case at < 0:
		return
	case e.Kind == dockerfile.EventOutput:
		p.now[at].text = e.Text
		if time.Since(p.last) < 50*time.Millisecond {
			return
		}
	default:
		p.now = append(p.now[:at], p.now[at+1:]...)
		p.clear()
		how := fmt.Sprintf("%.1fs", e.Seconds)
		if e.Cached {
			how = "cached"
		} else if e.Error != "" {
			how = "failed after " + how
		}
		fmt.Fprintln(p.w, p.fit(stepTitle(e), how))
	}
	p.draw()
}

// tick keeps the seconds going while a command says nothing.
func (p *buildProgress) tick() {
	t := time.NewTicker(500 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

func (p *buildProgress) end() {
	close(p.stop)
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.now = nil
}

func (p *buildProgress) clear() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\x1b[%dA\r\x1b[J", p.drawn)
		p.drawn = 0
	}
}

func (p *buildProgress) draw() {
	p.clear()
	p.last = time.Now()
	for _, s := range p.now {
		fmt.Fprintln(p.w, p.fit(stepTitle(s.Event), time.Since(s.began).Round(time.Second).String()))
		p.drawn++
		if s.text != "" {
			fmt.Fprintln(p.w, p.fit("    "+printable(s.text), ""))
			p.drawn++
		}
	}
}

func stepTitle(e dockerfile.Event) string {
	first, _, more := strings.Cut(e.Code, "\n")
	if more {
		first = strings.TrimSuffix(first, "\\") + " …"
	}
	return fmt.Sprintf("[%s %d/%d] %s", e.Stage, e.Step, e.Steps, printable(first))
}

// printable leaves out what steers a terminal: a build's output may come from
// anybody.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// fit cuts a line so that it and its end stand in one row.
func (p *buildProgress) fit(s, end string) string {
	w := p.columns
	if w <= 0 {
		w = 80
	}
	if end != "" {
		end = "  " + end
	}
	r := []rune(s)
	if room := max(w-1-len([]rune(end)), 0); len(r) > room {
		r = append(r[:max(room-1, 0)], '…')
	}
	return string(r) + end
}
