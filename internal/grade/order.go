package grade

import (
	"archive/tar"
	"context"
	"maps"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/sandbox"
)

// order is what a command's runner needs for the order that was asked for.
func (r Request) order(c checks.Command, env []string) ([]string, map[string][]byte, bool) {
	all := slices.Concat(r.Image.Config.Env, env)
	return report.Order(c.Report, r.Order, func(name string) string {
		for _, kv := range slices.Backward(all) {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	})
}

// reorder puts the files in place by which runners take their tests in another
// order.
func (r Request) reorder(ctx context.Context, sb sandbox.Trees, p *checks.Plan) error {
	if r.Order == 0 {
		return nil
	}
	files := map[string][]byte{}
	for _, c := range p.Commands {
		_, more, _ := r.order(c, nil)
		maps.Copy(files, more)
	}
	if len(files) == 0 {
		return nil
	}
	return sandbox.PutAll(ctx, sb, report.OrderDir, func(w *tar.Writer) error { return addFiles(w, files) })
}
