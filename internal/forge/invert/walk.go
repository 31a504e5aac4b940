package invert

import (
	"io/fs"
	"path"
	"slices"

	"assay/internal/image"
)

// each calls f for the regular files of a walk, those of dependency stores and
// build outputs too.
func each(f func(p string, size int64)) func(image.Entry) error {
	n := 0
	return func(e image.Entry) error {
		if e.IsDir() && slices.Contains([]string{".git", "proc", "sys"}, path.Base(e.Path)) {
			return fs.SkipDir
		}
		if n++; n > 200_000 {
			return fs.SkipAll
		}
		if e.Type == image.TypeFile {
			f("/"+e.Path, e.Size)
		}
		return nil
	}
}
