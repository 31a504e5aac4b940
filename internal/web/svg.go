package web

import (
	"fmt"
	"html/template"
	"strings"

	"assay/internal/stats"
	"assay/trial"
)

// The pictures hold numbers and words of ours alone, never a byte of a trial,
// and take their colours from the stylesheet through classes.

// intervalSVG draws a rate on a scale of 0..1: its interval as a bar, the rate
// as a tick.
func intervalSVG(r stats.Rate) template.HTML {
	const w, h = 120.0, 14.0
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="ci" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-label="`, w, h, w, h)
	if !r.Known {
		fmt.Fprintf(&b, `rate unknown"><rect class="track" y="6" width="%g" height="2"/></svg>`, w)
		return template.HTML(b.String())
	}
	fmt.Fprintf(&b, `%s, interval %s">`, Percent(r.Value), interval(r.Interval))
	fmt.Fprintf(&b, `<rect class="track" y="6" width="%g" height="2"/>`, w)
	fmt.Fprintf(&b, `<rect class="range" x="%.1f" y="4" width="%.1f" height="6" rx="2"/>`, w*r.Lo, max(1, w*(r.Hi-r.Lo)))
	fmt.Fprintf(&b, `<rect class="tick" x="%.1f" y="1" width="3" height="12" rx="1"/></svg>`, min(w-3, max(0, w*r.Value-1.5)))
	return template.HTML(b.String())
}

// shareSVG draws the endings of a tally as one bar over all planned trials.
func shareSVG(t stats.Tally) template.HTML {
	const w = 1000.0
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="share" viewBox="0 0 %g 10" preserveAspectRatio="none" role="img" aria-label="`, w)
	b.WriteString(tallyWords(t))
	fmt.Fprintf(&b, `"><rect class="track" width="%g" height="10"/>`, w)
	x := 0.0
	for _, p := range parts(t) {
		if t.Planned == 0 || p.N == 0 {
			continue
		}
		d := w * float64(p.N) / float64(t.Planned)
		fmt.Fprintf(&b, `<rect class="o-%s" x="%.2f" width="%.2f" height="10"/>`, p.Word, x, d)
		x += d
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

type part struct {
	Word string
	N    int
}

// parts are the endings of a tally in the order in which they are shown.
func parts(t stats.Tally) []part {
	return []part{
		{"pass", t.Pass}, {"fail", t.Fail}, {"inconclusive", t.Inconclusive},
		{"invalid", t.Invalid}, {"infra", t.Infra}, {"cancelled", t.Cancelled},
	}
}

// tallyWords says a tally in words: "3 pass, 1 fail, 2 to come".
func tallyWords(t stats.Tally) string {
	var l []string
	for _, p := range parts(t) {
		if p.N > 0 {
			l = append(l, fmt.Sprintf("%d %s", p.N, p.Word))
		}
	}
	if n := t.Planned - t.Ended(); n > 0 {
		l = append(l, fmt.Sprintf("%d to come", n))
	}
	if len(l) == 0 {
		return "nothing"
	}
	return strings.Join(l, ", ")
}

// phasesSVG draws a trial's phases one after the other on a common scale. A
// phase too short to be seen still has a sliver; the numbers stand in the
// table beside it.
func phasesSVG(phases []trial.PhaseTime) template.HTML {
	const w, sliver = 1000.0, 2.0
	total := 0.0
	for _, p := range phases {
		total += max(0, p.Millis)
	}
	if total <= 0 {
		return ""
	}
	scale := (w - sliver*float64(len(phases))) / total
	if scale <= 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="phases" viewBox="0 0 %g 10" preserveAspectRatio="none" role="img" aria-label="phases, %s in all">`, w, Millis(total))
	x := 0.0
	for _, p := range phases {
		d := sliver + max(0, p.Millis)*scale
		fmt.Fprintf(&b, `<rect class="ph-%d" x="%.2f" width="%.2f" height="10"/>`, phaseRank(p.Phase), x, d)
		x += d
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}
