package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"assay/internal/forge"
)

// printFunnel prints what became of all candidates, generator by generator.
func (a *app) printFunnel(g *grammar, r *forge.Report, plan bool) error {
	if g.JSON {
		return a.emit("forge", r)
	}
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "generator\tproposed\tbuilt\tbitten\tproved\tstanding\twanted\trejected")
	for _, name := range slices.Sorted(maps.Keys(r.Generators)) {
		k := r.Generators[name]
		wanted := "all"
		if k.Wanted > 0 {
			wanted = fmt.Sprint(k.Wanted)
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", name, k.Proposed, k.Built, k.Bitten, k.Proved, k.Standing, wanted, reasons(k.Rejected))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Generators)) {
		if s := r.Generators[name].Sifting; s != nil && s.Total > 0 {
			fmt.Fprintf(a.Stdout, "%s: of %d %s (%.0f a second) %d looked into, %d proposed; not: %s\n", name, s.Total, s.Of,
				float64(s.Total)/max(s.Scan, 1e-3), s.Read, s.Proposed, reasons(s.Dropped))
		}
	}
	fmt.Fprintf(a.Stdout, "%d tasks, median %s, largest %s; suite %.1f s; %s now, %s in all, %.0f tasks an hour\n", len(r.Tasks), size(r.MedianBytes), size(r.MaxBytes),
		r.SuiteMillis/1000, seconds(r.Seconds), seconds(r.AllSeconds), r.PerHour)
	if !plan {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Generators)) {
		k := r.Generators[name]
		if k.Proposed == 0 || k.Proved == 0 {
			fmt.Fprintf(a.Stdout, "%s: none of %d candidates was admitted; no end can be told\n", name, k.Proposed)
			continue
		}
		line := fmt.Sprintf("%s: %.0f %% of its candidates are admitted", name, 100*float64(k.Proved)/float64(k.Proposed))
		if left := k.Wanted - k.Standing; k.Wanted > 0 {
			line += fmt.Sprintf("; %d more would take about %s", max(0, left), seconds(float64(max(0, left))*k.Seconds/float64(k.Proved)))
		}
		fmt.Fprintln(a.Stdout, line)
	}
	return nil
}

// reasons lists why candidates were turned away, the most frequent first.
func reasons(m map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(m[b]-m[a], cmp.Compare(a, b)) })
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%s %d", k, m[k])
	}
	return strings.Join(keys, ", ")
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
