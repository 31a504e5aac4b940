package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"assay/internal/image"
)

// labelLayers tells of which layers of a store an image of the engine is made:
// "layer:tar:bytes", without "sha256:", bottom first.
const labelLayers = "assay.layers"

// tars remembers how an engine knows layers, and which stacks of them it has.
// Its images themselves say so: nothing is kept on this side.
type tars struct {
	mu     sync.Mutex
	known  map[image.LayerID]layerTar
	stacks map[string]bool // every prefix
}

// learn asks the engine. Who can write a lie there is root of its machine
// anyway; what was removed since makes a load fail, which is then done in full.
func (t *tars) learn(ctx context.Context, c *client) error {
	var all []labelled
	if err := c.call(ctx, "GET", "/images/json", filter("label", labelLayers), nil, &all); err != nil {
		return err
	}
	for _, im := range all {
		ids, sizes, ok := parseLayers(im.Labels[labelLayers])
		if ok {
			t.loaded(ids, sizes)
		}
	}
	return nil
}

// have counts the lowest layers that the engine has as one stack.
func (t *tars) have(ids []image.LayerID) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := len(ids); n > 0; n-- {
		if t.stacks[stackKey(ids[:n])] {
			return n
		}
	}
	return 0
}

func (t *tars) loaded(ids []image.LayerID, sizes []layerTar) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known, t.stacks = map[image.LayerID]layerTar{}, map[string]bool{}
	}
	for i, id := range ids {
		if id == "" {
			return
		}
		t.known[id] = sizes[i]
		t.stacks[stackKey(ids[:i+1])] = true
	}
}

func (t *tars) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.stacks = nil, nil
}

// of is the tar of a layer, which is made for that if nobody has before.
func (t *tars) of(l layerSource) (layerTar, error) {
	t.mu.Lock()
	size, ok := t.known[l.id]
	t.mu.Unlock()
	if ok && l.id != "" {
		return size, nil
	}
	sum := sha256.New()
	n := &counter{w: sum}
	if err := l.write(n); err != nil {
		return layerTar{}, err
	}
	return layerTar{hex.EncodeToString(sum.Sum(nil)), n.n}, nil
}

func stackKey(ids []image.LayerID) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(string(id) + "\n")
	}
	return b.String()
}

func layersLabel(ids []image.LayerID, sizes []layerTar) string {
	var all []string
	for i, id := range ids {
		all = append(all, fmt.Sprintf("%s:%s:%d", strings.TrimPrefix(string(id), "sha256:"), sizes[i].digest, sizes[i].bytes))
	}
	return strings.Join(all, ",")
}

func parseLayers(label string) (ids []image.LayerID, sizes []layerTar, ok bool) {
	if label == "" || len(label) > 1<<20 {
		return nil, nil, false
	}
	for one := range strings.SplitSeq(label, ",") {
		f := strings.Split(one, ":")
		if len(f) != 3 || !isDigest(f[0]) || !isDigest(f[1]) {
			return nil, nil, false
		}
		n, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil || n < 0 {
			return nil, nil, false
		}
		ids, sizes = append(ids, image.LayerID("sha256:"+f[0])), append(sizes, layerTar{f[1], n})
	}
	return ids, sizes, true
}

func isDigest(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }
