package sandbox

import "assay/internal/image"

// Script is the command that runs a script file directly, so that its shebang
// counts, with both streams in one, so that their order is kept. A script
// without a shebang is bash's where there is a bash, as in Harbor. The file
// must be executable.
func Script(path image.Path) []string {
	return []string{"/bin/sh", "-c", launcher, string(path)}
}

// launcher runs the script by bash's exec where there is a bash: the kernel
// obeys a shebang, and what has none is left to the shell that tried.
const launcher = `exec 2>&1
command -v bash >/dev/null && exec bash -c 'exec "$0"' "$0"
exec "$0"`
