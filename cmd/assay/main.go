// Command assay builds tasks for coding agents, runs any agent on them in
// sandboxes, and grades what came out. Everything is in internal/cli; this
// package only hands over the process.
package main

import (
	"os"

	"assay/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, cli.Process()))
}
