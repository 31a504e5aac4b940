package web

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"assay/internal/compare"
)

// maxPageCells bounds the pictures of the grid of tasks; larger grids are
// numbers alone.
const maxPageCells = 6000

// comparisonPage is the data of a comparison's page.
type comparisonPage struct {
	Head   head
	R      *compare.Report
	Title  string
	Legend []legend
	Reach  float64
	Forest []forest
	Curves template.HTML
	Cost   template.HTML
	Sheets []sheet // all but the grid of tasks
	Grid   sheet
	Cells  [][]template.HTML // pictures of Grid's cells, by task and arm; nil: too many
}

type legend struct{ Class, Name, Words string }

type forest struct {
	Pair  compare.Pair
	SVG   template.HTML
	Words string
}

// ComparisonPage writes a comparison as a page that needs nothing but itself.
func ComparisonPage(w io.Writer, r *compare.Report) error {
	p, err := newPages()
	if err != nil {
		return err
	}
	page := comparisonPage{R: r, Title: comparisonTitle(r), Reach: reachOf(r.Pairs), Curves: curvesSVG(r.Arms), Cost: costSVG(r.Arms)}
	page.Head = p.inlined(page.Title)
	for i, a := range r.Arms {
		words := "nothing graded"
		if a.Rate.Known {
			words = rate(a.Rate)
		}
		page.Legend = append(page.Legend, legend{armClass(i), a.Name, words})
	}
	for _, c := range r.Pairs {
		f := forest{Pair: c, SVG: forestSVG(c, page.Reach), Words: unknown}
		if d := c.Diff; d != nil {
			f.Words = fmt.Sprintf("%s [%s, %s]%s", signed(d.Value), compare.Points(d.Lo), compare.Points(d.Hi), by(d.By))
		}
		page.Forest = append(page.Forest, f)
	}
	page.Sheets = sheets(r)
	if n := len(page.Sheets); n > 0 && len(r.Tasks) > 0 {
		page.Sheets, page.Grid = page.Sheets[:n-1], page.Sheets[n-1]
		if len(r.Tasks)*len(r.Arms) <= maxPageCells {
			for _, t := range r.Tasks {
				var row []template.HTML
				for _, c := range t.Cells {
					row = append(row, cellSVG(c))
				}
				page.Cells = append(page.Cells, row)
			}
		}
	}
	return p.render(w, "comparison", page)
}

func comparisonTitle(r *compare.Report) string {
	var names []string
	for _, j := range r.Jobs {
		names = append(names, j.Name)
	}
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("%d more", len(r.Jobs)-3))
	}
	return "Comparison: " + strings.Join(names, ", ")
}

// IsRight reports whether a column holds numbers.
func (s sheet) IsRight(i int) bool { return s.Right[i] }

// Cell is the picture of a task's cell in column col of the grid, where the
// first column is the task; empty: there is none.
func (p comparisonPage) Cell(row, col int) template.HTML {
	if p.Cells == nil || col < 1 || col > len(p.Cells[row]) {
		return ""
	}
	return p.Cells[row][col-1]
}

// Axis labels the forest plot.
func (p comparisonPage) Axis() template.HTML { return forestAxis(p.Reach) }
