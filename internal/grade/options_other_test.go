//go:build !linux

package grade

import "assay/internal/image"

func storeOptions() image.Options { return image.Options{Volatile: true} }
