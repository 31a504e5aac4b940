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

// latest keeps the latest modification time of a walk, in seconds.
func latest(last *int64) func(image.Entry) error {
	return func(e image.Entry) error {
		if !e.ModTime.IsZero() {
			*last = max(*last, e.ModTime.Unix())
		}
		return nil
	}
}
