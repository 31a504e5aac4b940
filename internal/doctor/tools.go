package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// tool is a program that some command or task uses when it is there.
type tool struct {
	name  string
	args  []string // that print a version and end
	means string
	fix   string
}

// Tools looks for the programs that are not needed to run assay but that some
// tasks and commands use.
func Tools(ctx context.Context) []Finding {
	var all []Finding
	for _, t := range []tool{
		{"git", []string{"--version"}, "tasks that use git on the image \"host\" will fail", "install the package git"},
		{"python3", []string{"--version"}, "HumanEval on the image \"host\" will fail", "install the package python3"},
		{"docker", []string{"--version"}, "'assay sandbox bench' compares with no container engine; the docker backend needs no client", "install the package docker-cli"},
		{"debootstrap", []string{"--version"}, "no Debian base can be made here", "install the package debootstrap, or import an image with 'assay image import'"},
	} {
		all = append(all, t.find(ctx))
	}
	return all
}

func (t tool) find(ctx context.Context) Finding {
	f := Finding{Name: t.name, Means: t.means, Remedy: t.fix}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	path, err := exec.LookPath(t.name)
	if err != nil {
		f.Detail = "not in PATH"
		return f
	}
	out, err := exec.CommandContext(ctx, path, t.args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		f.Detail = fmt.Sprintf("%s: %v %s", path, err, line)
		return f
	}
	return Finding{Name: t.name, OK: true, Detail: path + " " + line}
}
