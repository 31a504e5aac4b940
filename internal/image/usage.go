package image

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Usage says what fills a store. Layers count with the content of their files,
// hard links once, each layer once: for the first of Images, EndStates,
// Running, BuildCache and Unneeded that it belongs to.
type Usage struct {
	Images     []ImageUsage `json:"-"` // in order of names
	Jobs       []JobUsage   `json:"-"` // in order of directories
	Total      Share        `json:"total"`
	Named      Share        `json:"images"`
	EndStates  Share        `json:"end_states"` // of jobs, and what else they lease
	Running    Share        `json:"running"`    // of live processes alone
	BuildCache Share        `json:"build_cache"`
	Unneeded   Share        `json:"unneeded"` // the collector takes them

	// What is no layer, in bytes on disk.
	CacheMounts int64 `json:"cache_mounts"` // of RUN --mount=type=cache
	Partial     int64 `json:"partial"`      // pulls that were cut off
	Unfinished  int64 `json:"unfinished"`   // layers being made
	Trash       int64 `json:"trash"`
}

// Share is a part of the layers.
type Share struct {
	Layers int   `json:"layers"`
	Bytes  int64 `json:"bytes"`
}

func (s *Share) add(bytes int64) { s.Layers++; s.Bytes += bytes }

// ImageUsage says what an image takes.
type ImageUsage struct {
	Name       string   `json:"name"`
	ID         ID       `json:"id"`
	Layers     int      `json:"layers"`
	Bytes      int64    `json:"bytes"`
	Unique     int64    `json:"unique"`      // of layers that no other image has
	SharedWith []string `json:"shared_with"` // images, in order of names
}

// JobUsage says what a job directory takes besides images.
type JobUsage struct {
	Dir    string `json:"dir"`
	Layers int    `json:"layers"`
	Bytes  int64  `json:"bytes"`
}

// Usage counts. Other processes may go on using the store: what comes and goes
// meanwhile may be counted or not.
func (s *Store) Usage(ctx context.Context) (Usage, error) {
	var u Usage
	sizes, err := s.layerSizes(ctx)
	if err != nil {
		return u, fmt.Errorf("disk usage: %w", err)
	}
	images, err := s.List()
	if err != nil {
		return u, fmt.Errorf("disk usage: %w", err)
	}
	u.Images = imageUsage(images, sizes)
	if err := s.parts(&u, images, sizes); err != nil {
		return u, fmt.Errorf("disk usage: %w", err)
	}
	for dir, n := range map[string]*int64{mountsDir: &u.CacheMounts, partialDir: &u.Partial, tmpDir: &u.Unfinished, trashDir: &u.Trash} {
		if *n, err = onDiskBytes(ctx, s.path(dir)); err != nil {
			return u, fmt.Errorf("disk usage: %w", err)
		}
	}
	return u, nil
}

func (s *Store) layerSizes(ctx context.Context) (map[LayerID]int64, error) {
	dirs, err := os.ReadDir(s.path(layersDir))
	if err != nil {
		return nil, err
	}
	sizes := map[LayerID]int64{}
	for _, d := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		id := LayerID("sha256:" + d.Name())
		m, err := s.Manifest(id)
		if err != nil {
			continue // damaged, or collected just now
		}
		sizes[id] = 0
		for _, e := range m.Entries {
			if e.Hardlink == "" {
				sizes[id] += e.Size
			}
		}
	}
	return sizes, nil
}

func imageUsage(images []Image, sizes map[LayerID]int64) []ImageUsage {
	users := map[LayerID]map[string]bool{}
	for _, im := range images {
		for _, id := range im.Layers {
			if users[id] == nil {
				users[id] = map[string]bool{}
			}
			users[id][im.Name] = true
		}
	}
	var all []ImageUsage
	for _, im := range images {
		u := ImageUsage{Name: im.Name, ID: im.ID, Layers: len(im.Layers), SharedWith: []string{}}
		others := map[string]bool{}
		for i, id := range im.Layers {
			if slices.Contains(im.Layers[:i], id) {
				continue
			}
			u.Bytes += sizes[id]
			if len(users[id]) == 1 {
				u.Unique += sizes[id]
			}
			maps.Copy(others, users[id])
		}
		delete(others, im.Name)
		u.SharedWith = append(u.SharedWith, slices.Sorted(maps.Keys(others))...)
		all = append(all, u)
	}
	return all
}

// parts divides the layers among those who need them.
func (s *Store) parts(u *Usage, images []Image, sizes map[LayerID]int64) error {
	of := map[LayerID]*Share{} // whose it is
	take := func(to *Share, ids ...LayerID) (layers int, bytes int64) {
		for _, id := range ids {
			if n, there := sizes[id]; there && of[id] == nil {
				of[id] = to
				to.add(n)
				layers++
				bytes += n
			}
		}
		return layers, bytes
	}
	for _, im := range images {
		take(&u.Named, im.Layers...)
	}
	leases, err := s.leases()
	if err != nil {
		return err
	}
	for _, l := range leases {
		if l.gone || l.job == "" {
			continue
		}
		layers, bytes := take(&u.EndStates, l.layers...)
		u.Jobs = append(u.Jobs, JobUsage{l.job, layers, bytes})
	}
	slices.SortFunc(u.Jobs, func(a, b JobUsage) int { return cmp.Compare(a.Dir, b.Dir) })
	held, err := s.heldLayers()
	if err != nil {
		return err
	}
	take(&u.Running, slices.Collect(maps.Keys(held))...)
	for _, c := range s.cachedSteps() {
		take(&u.BuildCache, c.layer)
	}
	take(&u.Unneeded, slices.Collect(maps.Keys(sizes))...)
	for _, n := range sizes {
		u.Total.add(n)
	}
	return nil
}

// onDiskBytes is what a tree takes; what goes meanwhile does not count.
func onDiskBytes(ctx context.Context, dir string) (int64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil
		}
		if fi, err := d.Info(); err == nil && !fi.IsDir() {
			n += fi.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	return n, err
}
