package image_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"assay/internal/image"
)

// The collector takes a fetch that nobody goes on with, and leaves one that
// somebody does.
func TestPartial(t *testing.T) {
	s := open(t)
	const blob = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of "hello"
	p, err := s.Partial(t.Context(), blob)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(p, "hel")
	if ok, err := p.Verify(t.Context()); ok || err != nil {
		t.Errorf("half a blob verifies: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Partial(ctx, blob); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("two fetch one blob at once: %v", err)
	}
	if _, err := s.GC(t.Context(), image.GCOptions{Young: -1}); err != nil || s.PartialSize(blob) != 3 {
		t.Errorf("the collector took what is being fetched: %d, %v", s.PartialSize(blob), err)
	}
	p.Close()
	if p, err = s.Partial(t.Context(), blob); err != nil {
		t.Fatal(err)
	}
	io.WriteString(p, "lo")
	if ok, err := p.Verify(t.Context()); !ok || err != nil {
		t.Errorf("a whole blob does not verify: %v", err)
	}
	p.Close()
	if c, err := s.GC(t.Context(), image.GCOptions{}); err != nil || s.PartialSize(blob) != 5 {
		t.Errorf("the collector took a young one: %+v, %v", c, err)
	}
	if c, err := s.GC(t.Context(), image.GCOptions{Young: -1}); err != nil || c.Bytes != 5 || s.PartialSize(blob) != 0 {
		t.Errorf("%+v, %v; %d bytes stay", c, err, s.PartialSize(blob))
	}
	if _, err := s.Partial(t.Context(), "sha256:../../etc"); err == nil {
		t.Error("a digest that is a path")
	}
}
