// Package remove removes what others have made: directories without
// permissions among it, as layers keep modes and agents set them.
package remove

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Tree removes a file, or a directory and all below it, as [os.RemoveAll]
// does, and opens directories that stand in its way. It follows no links. That
// there is nothing is no error.
func Tree(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// Errors of the walk come again as errors of the removal.
	_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(at, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}
