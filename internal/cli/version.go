package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is the release this source tree becomes.
const version = "0.1.0"

type versionCmd struct{}

func (versionCmd) Help() string {
	return `Example:
  assay version --json

Exit status: 0.`
}

func (versionCmd) Run(a *app, g *grammar) error {
	rev := revision()
	if g.JSON {
		return a.emit("version", map[string]string{
			"version": version, "revision": rev, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
			"task_schema": "1.4", "atif": "1.8", "harbor": "0.25.0",
		})
	}
	fmt.Fprintf(a.Stdout, "assay %s %s %s/%s %s\n", version, rev, runtime.GOOS, runtime.GOARCH, runtime.Version())
	return nil
}

// revision is the commit the binary was built from, where Go recorded it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return "unknown"
}
