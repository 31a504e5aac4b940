package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"assay/trial"
)

// imagesShown is how far the images of a job are.
type imagesShown struct {
	of, ready int
	moved     map[string]trial.ImageMark // on their way, by name
}

// now is the images' part of the status line; nothing when all are there.
func (s *imagesShown) now() []string {
	if s.of == s.ready {
		return nil
	}
	line := fmt.Sprintf("images %d/%d", s.ready, s.of)
	done, total := int64(0), int64(0)
	for _, m := range s.moved {
		done, total = done+m.Done, total+m.Total
	}
	if total > 0 {
		line += fmt.Sprintf(", %s of %s", size(done), size(total))
	}
	return []string{line}
}

// slowImage is when an image's making is worth a line, in milliseconds.
const slowImage = 500

// before tells what comes before trials: images, and pauses for want of room.
func (p *progress) before(e trial.Event) {
	switch e.Kind {
	case trial.JobPaused, trial.JobContinued:
		var at trial.Pause
		if json.Unmarshal(e.Data, &at) != nil {
			return
		}
		p.paused = ""
		if e.Kind == trial.JobContinued {
			p.line("goes on   there is room again")
			return
		}
		p.paused = fmt.Sprintf("paused: %s free, --min-free %s", size(at.Free), size(at.Min))
		p.line(fmt.Sprintf("paused    %s has %s free and the job wants %s (--min-free): it goes on when there is room", at.Path, size(at.Free), size(at.Min)))
		return
	}
	var m trial.ImageMark
	if json.Unmarshal(e.Data, &m) != nil {
		return
	}
	switch e.Kind {
	case trial.ImageStarted:
		p.images.of = m.Of
	case trial.ImageMoved:
		if p.images.moved == nil {
			p.images.moved = map[string]trial.ImageMark{}
		}
		p.images.moved[m.Name] = m
		if !p.a.Terminal {
			p.line(fmt.Sprintf("fetch     %s  %s of %s", m.Name, size(m.Done), size(m.Total)))
		}
	case trial.ImageReady:
		p.images.ready++
		delete(p.images.moved, m.Name)
		name := m.Name
		if filepath.IsAbs(name) {
			name = short(name)
		}
		switch {
		case m.Error != "":
			p.line(fmt.Sprintf("image     %s cannot be had (%s): %s", name, m.Cause, m.Error))
		case m.Millis >= slowImage:
			p.line(fmt.Sprintf("image     %s is ready, %.1f s", name, m.Millis/1000))
		}
	}
}
