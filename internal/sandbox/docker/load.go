package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"

	"assay/internal/image"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// layerSource is one layer as an uncompressed tar, which write makes twice the
// same.
type layerSource struct {
	id    image.LayerID // empty: it is not of the store
	write func(io.Writer) error
}

// layerTar is how an engine knows a layer: its tar's digest and size.
type layerTar struct {
	digest string // hex
	bytes  int64
}

// load gives the engine an image of these layers. Its configuration says
// nothing: how programs start is for the sandbox to say. The lowest layers, as
// many as the engine is known to have, are not sent again.
func (b *Backend) load(ctx context.Context, tag string, labels map[string]string, layers []layerSource) error {
	ids := make([]image.LayerID, len(layers))
	for i, l := range layers {
		ids[i] = l.id
	}
	have := b.tars.have(ids)
	err := b.loadFrom(ctx, tag, labels, layers, ids, have)
	if err != nil && have > 0 && ctx.Err() == nil {
		b.tars.forget() // it has less than it had, or wants all of it
		err = b.loadFrom(ctx, tag, labels, layers, ids, 0)
	}
	return err
}

func (b *Backend) loadFrom(ctx context.Context, tag string, labels map[string]string, layers []layerSource, ids []image.LayerID, have int) error {
	var sizes []layerTar
	for _, l := range layers {
		size, err := b.tars.of(l)
		if err != nil {
			return err
		}
		sizes = append(sizes, size)
	}
	labels = maps.Clone(labels)
	if len(ids) > 0 && ids[0] != "" {
		labels[labelLayers] = layersLabel(ids, sizes)
	}
	diffs, files := []string{}, []string{}
	for i, s := range sizes {
		diffs = append(diffs, "sha256:"+s.digest)
		files = append(files, fmt.Sprintf("%d.tar", i))
	}
	config, err := json.Marshal(map[string]any{
		"architecture": b.info.Architecture, "os": "linux", "config": map[string]any{"Labels": labels},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{tag}, "Layers": files}})
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		add := func(name string, b []byte) error {
			if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(b))}); err != nil {
				return err
			}
			_, err := tw.Write(b)
			return err
		}
		err := errors.Join(add("config.json", config), add("manifest.json", manifest))
		for i, l := range layers {
			if i < have {
				continue
			}
			if err == nil {
				err = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: files[i], Mode: 0o600, Size: sizes[i].bytes})
			}
			if err == nil {
				err = l.write(tw)
			}
		}
		if err == nil {
			err = tw.Close()
		}
		w.CloseWithError(err)
	}()
	defer r.Close()
	body, err := b.api.do(ctx, "POST", "/images/load", url.Values{"quiet": {"1"}}, r, "application/x-tar")
	if err != nil {
		return fmt.Errorf("load image %s: %w", tag, err)
	}
	defer body.Close()
	said, err := io.ReadAll(io.LimitReader(body, 1<<20))
	if err != nil {
		return err
	}
	// The status is sent before the work is done; a failure comes in words.
	for line := range bytes.Lines(said) {
		var m struct{ Error string }
		if json.Unmarshal(line, &m) == nil && m.Error != "" {
			return fmt.Errorf("load image %s: %s", tag, m.Error)
		}
	}
	b.tars.loaded(ids, sizes)
	return nil
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// imageTag is where the engine keeps a stack of layers of the store.
func imageTag(layers []image.LayerID) string {
	sum := sha256.New()
	for _, l := range layers {
		io.WriteString(sum, string(l)+"\n")
	}
	return "assay/image:" + hex.EncodeToString(sum.Sum(nil))[:40]
}

// image makes sure that the engine has a stack of layers, and names it.
func (b *Backend) image(ctx context.Context, layers []image.LayerID) (string, error) {
	tag := imageTag(layers)
	b.loading.Lock()
	defer b.loading.Unlock()
	if b.loaded[tag] {
		return tag, nil
	}
	err := b.api.call(ctx, "GET", "/images/"+tag+"/json", nil, nil, nil)
	if isStatus(err, 404) {
		var sources []layerSource
		for _, id := range layers {
			sources = append(sources, layerSource{id, func(w io.Writer) error { return b.conf.Store.ToTar(ctx, id, w) }})
		}
		err = b.load(ctx, tag, map[string]string{labelCache: "image"}, sources)
	}
	if err != nil {
		return "", err
	}
	b.loaded[tag] = true
	return tag, nil
}

// programImage makes sure that the engine has the program, and names its image.
func (b *Backend) programImage(ctx context.Context, p *program) (string, error) {
	tag := "assay/init:" + p.id
	err := b.api.call(ctx, "GET", "/images/"+tag+"/json", nil, nil, nil)
	if isStatus(err, 404) {
		err = b.load(ctx, tag, map[string]string{labelCache: "init"}, []layerSource{{write: p.tar}})
	}
	return tag, err
}
