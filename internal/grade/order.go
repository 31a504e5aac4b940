package grade

import (
	"archive/tar"
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/sandbox"
)

// order is what a command's runner needs for the order that was asked for.
func (r Request) order(c checks.Command, env []string) ([]string, map[string][]byte, bool) {
	if isolated(c) {
		return nil, nil, false
	}
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

// isolated reports whether a command's Python takes no variables, so that the
// plugin of another order would be asked for and not found.
func isolated(c checks.Command) bool {
	words := append(strings.Fields(c.Run), c.Args...)
	python := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(path.Base(w), "python") })
	if python < 0 || !strings.HasPrefix(string(c.Report), "pytest") {
		return false
	}
	for _, w := range words[python+1:] {
		if w == "-m" || !strings.HasPrefix(w, "-") {
			return false
		}
		if !strings.HasPrefix(w, "--") && strings.ContainsAny(w, "IE") {
			return true
		}
	}
	return false
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
