package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Clones of large projects, by hand: ASSAY_HISTORY_CLONES=/path/a:/path/b go
// test -run RealClones -v. Their tests are not run, so a candidate here is a
// commit whose inverse applies to the newest tree, and no more.
func TestRealClones(t *testing.T) {
	list := os.Getenv("ASSAY_HISTORY_CLONES")
	if list == "" {
		t.Skip("ASSAY_HISTORY_CLONES names no clones")
	}
	for clone := range strings.SplitSeq(list, ":") {
		t.Run(filepath.Base(filepath.Dir(clone)), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tree")
			gitOut(t, t.TempDir(), "clone", "-q", "--shared", clone, dir)
			w := world(t, dir)
			w.Git = clone
			w.Env.Source.Commit = strings.TrimSpace(gitOut(t, dir, "rev-parse", "HEAD"))
			g := &Generator{Blind: true}
			all := propose(t, g, w)
			codes, from, how := map[string]int{}, map[string]int{}, map[string]int{}
			for i, c := range all {
				for q := range strings.SplitSeq(c.Notes["quality"], ",") {
					codes[q]++
				}
				from[c.Notes["statement"]]++
				how[c.Operators[0]]++
				if i%max(1, len(all)/12) == 0 {
					t.Logf("%s %s %v\n%s\n%s\n", c.Name, c.Origin.Commit, c.Operators, c.Statement.Title, c.Statement.Body)
				}
			}
			t.Logf("%d commits, %.1f s, %.0f a second; %d looked into; %d candidates %v; statements %v; codes %v",
				g.Funnel.Commits, g.Funnel.Scan.Seconds(), float64(g.Funnel.Commits)/g.Funnel.Scan.Seconds(), g.Funnel.Read, len(all), how, from, codes)
			for _, r := range g.Funnel.Reasons() {
				t.Logf("%6d %s", g.Funnel.Rejected[r], r)
			}
		})
	}
}
