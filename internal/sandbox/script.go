package sandbox

import "assay/internal/image"

// Script is the command that runs a script file directly, so that its shebang
// counts, with both streams in one, so that their order is kept. A script
// without a shebang is bash's where there is a bash, as in Harbor. The file
// must be executable.
func Script(path image.Path) []string {
	return []string{"/bin/sh", "-c", launcher, string(path)}
}

// launcher uses nothing but the shell itself: the image may hold no more.
const launcher = `exec 2>&1
line=
IFS= read -r line <"$0"
case $line in
'#!'* | ?ELF*) exec "$0" ;;
esac
command -v bash >/dev/null && exec bash "$0"
exec sh "$0"`
