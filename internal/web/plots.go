package web

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"assay/internal/compare"
	"assay/internal/stats"
)

// Plots of a comparison. As all pictures here they hold numbers and words of
// ours alone: names of arms and tasks stand in the tables beside them.

// armClass is the colour of an arm; past eight they come again, and the number
// beside a name tells them apart.
func armClass(i int) string { return fmt.Sprintf("ph-%d", []int{2, 6, 3, 4, 5, 1, 7, 0}[i%8]) }

// forestSVG draws one paired difference on the common scale of −reach..reach:
// the interval as a bar, the difference as a tick, no difference as a line.
func forestSVG(p compare.Pair, reach float64) template.HTML {
	const w, h = 360.0, 18.0
	at := func(x float64) float64 { return w/2 + w/2*max(-1, min(1, x/reach)) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="forest" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-label="`, w, h, w, h)
	if p.Diff == nil {
		fmt.Fprintf(&b, `nothing to pair"><rect class="track" x="%.1f" width="1" height="%g"/></svg>`, w/2, h)
		return template.HTML(b.String())
	}
	d := p.Diff
	fmt.Fprintf(&b, `%s in 100 tasks, interval %s to %s">`, signed(d.Value), compare.Points(d.Lo), compare.Points(d.Hi))
	fmt.Fprintf(&b, `<rect class="track" x="%.1f" width="1" height="%g"/>`, w/2, h)
	if p.Worst < p.Best-1e-9 {
		fmt.Fprintf(&b, `<rect class="bound" x="%.1f" y="8" width="%.1f" height="2"/>`, at(p.Worst), max(1, at(p.Best)-at(p.Worst)))
	}
	class := "range"
	if p.Verdict == compare.ABetter || p.Verdict == compare.BBetter {
		class = "range sure"
	}
	fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="5" width="%.1f" height="8" rx="2"/>`, class, at(d.Lo), max(1, at(d.Hi)-at(d.Lo)))
	fmt.Fprintf(&b, `<rect class="tick" x="%.1f" y="2" width="3" height="14" rx="1"/></svg>`, at(d.Value)-1.5)
	return template.HTML(b.String())
}

// reachOf is the scale of a forest plot: the farthest end, to a round number.
func reachOf(pairs []compare.Pair) float64 {
	far := 0.05
	for _, p := range pairs {
		if p.Diff != nil {
			far = max(far, -p.Diff.Lo, p.Diff.Hi)
		}
	}
	for _, r := range []float64{0.05, 0.1, 0.2, 0.3, 0.5, 0.75} {
		if far <= r {
			return r
		}
	}
	return 1
}

// forestAxis labels the scale.
func forestAxis(reach float64) template.HTML {
	const w, h = 360.0, 16.0
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="forest" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-label="scale from −%s to %s in 100 tasks">`, w, h, w, h, compare.Points(reach), compare.Points(reach))
	for _, p := range []struct {
		x      float64
		text   string
		anchor string
	}{{0, "−" + compare.Points(reach), "start"}, {w / 4, "−" + compare.Points(reach/2), "middle"}, {w / 2, "0", "middle"}, {3 * w / 4, "+" + compare.Points(reach/2), "middle"}, {w, "+" + compare.Points(reach), "end"}} {
		fmt.Fprintf(&b, `<text x="%.1f" y="12" text-anchor="%s">%s</text>`, p.x, p.anchor, p.text)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// frame is a plot's area with its axes.
type frame struct {
	b                strings.Builder
	left, top, w, h  float64 // of the area
	x0, x1           float64 // values at its sides
	whole, wholeHigh float64
}

func newFrame(label string, x0, x1 float64) *frame {
	f := &frame{left: 44, top: 10, w: 420, h: 220, x0: x0, x1: x1}
	f.whole, f.wholeHigh = f.left+f.w+16, f.top+f.h+40
	fmt.Fprintf(&f.b, `<svg class="plot" viewBox="0 0 %g %g" role="img" aria-label="%s">`, f.whole, f.wholeHigh, label)
	for _, y := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&f.b, `<rect class="track" x="%.1f" y="%.1f" width="%.1f" height="1"/>`, f.left, f.y(y), f.w)
		fmt.Fprintf(&f.b, `<text x="%.1f" y="%.1f" text-anchor="end">%.0f %%</text>`, f.left-6, f.y(y)+4, 100*y)
	}
	return f
}

func (f *frame) x(v float64) float64 {
	if f.x1 <= f.x0 {
		return f.left + f.w/2
	}
	return f.left + f.w*(v-f.x0)/(f.x1-f.x0)
}
func (f *frame) y(v float64) float64 { return f.top + f.h*(1-v) }

func (f *frame) xLabel(v float64, text string) {
	fmt.Fprintf(&f.b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, f.x(v), f.top+f.h+18, text)
}

func (f *frame) done(axis string) template.HTML {
	fmt.Fprintf(&f.b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text></svg>`, f.left+f.w/2, f.top+f.h+36, axis)
	return template.HTML(f.b.String())
}

// curvesSVG draws pass@k over k, k on a logarithmic scale, and pass^k dashed
// below it.
func curvesSVG(arms []compare.Arm) template.HTML {
	most := 1
	for _, a := range arms {
		for _, at := range a.AtK {
			most = max(most, at.K)
		}
	}
	if most < 2 {
		return ""
	}
	f := newFrame("pass@k of each arm over k, with pass^k dashed", 0, math.Log(float64(most)))
	for i, a := range arms {
		if !a.Rate.Known {
			continue
		}
		start := []point{{0, a.Rate.Value, a.Rate.Interval}}
		any, all := start, start
		for _, at := range a.AtK {
			x := math.Log(float64(at.K))
			if at.Any != nil {
				any = append(any, point{x, at.Any.Mean.Value, at.Any.Mean.Interval})
			}
			if at.All != nil {
				all = append(all, point{x, at.All.Mean.Value, at.All.Mean.Interval})
			}
		}
		fmt.Fprintf(&f.b, `<g class="%s">`, armClass(i))
		f.band(any)
		f.line(any, "curve")
		f.line(all, "curve dashed")
		for _, p := range any {
			fmt.Fprintf(&f.b, `<circle class="dot" cx="%.1f" cy="%.1f" r="3"/>`, f.x(p.x), f.y(p.y))
		}
		f.b.WriteString(`</g>`)
	}
	for _, k := range stats.Ks(most) {
		f.xLabel(math.Log(float64(k)), fmt.Sprint(k))
	}
	return f.done("attempts k")
}

type point struct {
	x, y float64
	i    stats.Interval
}

func (f *frame) line(ps []point, class string) {
	if len(ps) < 2 {
		return
	}
	fmt.Fprintf(&f.b, `<polyline class="%s" points="`, class)
	for _, p := range ps {
		fmt.Fprintf(&f.b, "%.1f,%.1f ", f.x(p.x), f.y(p.y))
	}
	f.b.WriteString(`"/>`)
}

// band fills the intervals around a curve.
func (f *frame) band(ps []point) {
	if len(ps) < 2 {
		return
	}
	f.b.WriteString(`<polygon class="band" points="`)
	for _, p := range ps {
		fmt.Fprintf(&f.b, "%.1f,%.1f ", f.x(p.x), f.y(p.i.Hi))
	}
	for i := len(ps) - 1; i >= 0; i-- {
		fmt.Fprintf(&f.b, "%.1f,%.1f ", f.x(ps[i].x), f.y(ps[i].i.Lo))
	}
	f.b.WriteString(`"/>`)
}

// costSVG draws what a trial costs against what is solved, with both intervals
// as a cross; arms of unknown cost are not in it.
func costSVG(arms []compare.Arm) template.HTML {
	high := 0.0
	for _, a := range arms {
		if a.Cost.Mean != nil && a.Rate.Known {
			high = max(high, *a.Cost.Mean)
			if i := a.Cost.MeanOf; i != nil {
				high = max(high, i.Hi)
			}
		}
	}
	if high <= 0 || math.IsInf(high, 0) {
		return ""
	}
	high *= 1.08
	f := newFrame("cost of a trial and rate solved, one cross an arm", 0, high)
	for i, a := range arms {
		if a.Cost.Mean == nil || !a.Rate.Known {
			continue
		}
		x, y := f.x(*a.Cost.Mean), f.y(a.Rate.Value)
		fmt.Fprintf(&f.b, `<g class="%s">`, armClass(i))
		fmt.Fprintf(&f.b, `<rect x="%.1f" y="%.1f" width="1.5" height="%.1f"/>`, x-0.75, f.y(a.Rate.Hi), max(1, f.y(a.Rate.Lo)-f.y(a.Rate.Hi)))
		if ci := a.Cost.MeanOf; ci != nil {
			fmt.Fprintf(&f.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="1.5"/>`, f.x(ci.Lo), y-0.75, max(1, f.x(ci.Hi)-f.x(ci.Lo)))
		}
		fmt.Fprintf(&f.b, `<circle class="dot" cx="%.1f" cy="%.1f" r="5"/><text x="%.1f" y="%.1f">%d</text></g>`, x, y, x+8, y-7, i+1)
	}
	for k := range 5 {
		v := high * float64(k) / 4
		f.xLabel(v, Dollars(&v))
	}
	return f.done("mean cost of a trial")
}

// cellSVG draws one cell of the grid of tasks: passed as a filled part of what
// was graded, and an outline of what was planned and lost.
func cellSVG(c compare.Cell) template.HTML {
	const w, h = 44.0, 10.0
	if c.Planned == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="cell" viewBox="0 0 %g %g" width="%g" height="%g" role="img" aria-label="%d of %d graded passed">`, w, h, w, h, c.Passed, c.Graded)
	unit := w / float64(c.Planned)
	fmt.Fprintf(&b, `<rect class="track" width="%g" height="%g"/>`, w, h)
	fmt.Fprintf(&b, `<rect class="o-pass" width="%.2f" height="%g"/>`, unit*float64(c.Passed), h)
	fmt.Fprintf(&b, `<rect class="o-fail" x="%.2f" width="%.2f" height="%g"/></svg>`, unit*float64(c.Passed), unit*float64(c.Graded-c.Passed), h)
	return template.HTML(b.String())
}
