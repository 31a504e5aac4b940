// Package examples holds the demo tasks inside the program, so that a first
// run needs no download: five small tasks that want nothing but a POSIX shell
// and the usual small tools, and a scripted solver that is right about half of
// the time. It only carries files; it runs nothing and imports nothing of
// assay's own.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed all:demo
var demo embed.FS

// PartialSolver is the scripted solver's file of shell steps in [Demo].
const PartialSolver = "demo/partial.sh"

// Demo returns a tree whose only directory, demo, holds one task directory a
// task, and the solver. An embedded file has no execute bit: whoever writes the
// tree to a disk gives it to the files *.sh.
func Demo() fs.FS { return demo }
