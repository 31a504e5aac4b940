package ns

import (
	"fmt"

	"assay/internal/image"
)

// In the mode with one user id, apt would give up its rights for those of user
// _apt, look whether they are gone, and stop. It is told to stay who it is, by
// a file of the skeleton: in every tree, in no layer.
const (
	aptDir     = "etc/apt/apt.conf.d"
	aptFile    = aptDir + "/zz-assay-one-user"
	aptSetting = "APT::Sandbox::User \"root\";\n"
)

// hasApt reports whether a stack of layers has a directory for apt's settings.
func (b *Backend) hasApt(layers []image.LayerID) (bool, error) {
	if len(layers) == 0 {
		return false, nil
	}
	key := fmt.Sprint(layers)
	b.mu.Lock()
	has, known := b.apt[key]
	b.mu.Unlock()
	if known {
		return has, nil
	}
	v, err := b.conf.Store.View(layers)
	if err != nil {
		return false, err
	}
	e, err := v.Lstat(aptDir)
	has = err == nil && e.IsDir()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.apt[key] = has
	return has, nil
}
