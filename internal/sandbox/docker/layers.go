package docker

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// layerVolume is the name of the volume that holds a layer for this backend.
func (b *Backend) layerVolume(id image.LayerID) string {
	return "assay-layer-" + b.owner + "-" + id.Short()
}

// layerAt is where a layer's volume is filled.
const layerAt = "/layer"

// volumes makes sure that the engine has the layers that are mounted, each as
// one volume that all sandboxes of this backend share and nobody can write to.
// Like all volumes of the backend they go with it.
func (b *Backend) volumes(ctx context.Context, mounts []sandbox.Mount) error {
	for _, m := range mounts {
		if m.Layer == "" {
			continue
		}
		if err := b.fill(ctx, m.Layer); err != nil {
			return fmt.Errorf("mount layer %s at %s: %w", m.Layer.Short(), m.Target, err)
		}
	}
	return nil
}

// fill makes the volume of a layer once. A container that never starts takes
// the files: the engine unpacks into the volumes of one that stands.
func (b *Backend) fill(ctx context.Context, id image.LayerID) error {
	b.loading.Lock()
	defer b.loading.Unlock()
	name := b.layerVolume(id)
	if b.loaded[name] {
		return nil
	}
	labels := map[string]string{labelOwner: b.owner}
	if err := b.api.call(ctx, "POST", "/volumes/create", nil, map[string]any{"Name": name, "Labels": labels}, nil); err != nil {
		return err
	}
	tag, err := b.programImage(ctx, b.program)
	if err != nil {
		return err
	}
	spec := b.bare(tag, "keep")
	spec.HostConfig.Mounts = []mount{{Type: "volume", Source: name, Target: layerAt, VolumeOptions: &volumeOptions{NoCopy: true}}}
	var made struct {
		ID string `json:"Id"`
	}
	if err := b.api.call(ctx, "POST", "/containers/create", nil, spec, &made); err != nil {
		return err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = (&container{b: b, id: made.ID}).remove(clean) // the sweep finds it again
	}()
	r, w := io.Pipe()
	go func() { w.CloseWithError(b.conf.Store.ToTar(ctx, id, w)) }()
	defer r.Close()
	body, err := b.api.do(ctx, "PUT", "/containers/"+made.ID+"/archive", url.Values{"path": {layerAt}}, r, "application/x-tar")
	if err != nil {
		return err
	}
	if err := body.Close(); err != nil {
		return err
	}
	b.loaded[name] = true
	return nil
}

// points are where something was mounted in the tree that the sandbox has now.
func (s *Sandbox) points() []image.Path {
	all := slices.Clone(s.on.points)
	for _, m := range s.spec.Mounts {
		all = append(all, m.Target)
	}
	return all
}

// withoutPoints takes the directories that the engine made to mount upon out of
// what was changed, unless something else is in them.
func (c *committer) withoutPoints(points []image.Path) {
	made := map[string]bool{}
	for _, p := range points {
		for d := strings.TrimPrefix(path.Clean("/"+string(p)), "/"); d != "" && d != "."; d = path.Dir(d) {
			if _, err := c.base.Lstat(d); err == nil {
				break
			}
			made[d] = true
		}
	}
	full := map[string]bool{}                      // directories with something else in them
	for _, e := range slices.Backward(c.entries) { // what is in a directory comes after it
		if !made[e.Path] || !e.IsDir() || full[e.Path] {
			full[path.Dir(e.Path)] = true
		}
	}
	c.entries = slices.DeleteFunc(c.entries, func(e image.Entry) bool {
		return made[e.Path] && e.IsDir() && !full[e.Path]
	})
}
