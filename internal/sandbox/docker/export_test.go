package docker

import (
	"testing"
)

// Owner is the label of what a backend makes.
func Owner(b *Backend) string { return b.owner }

// Left counts what an engine holds of an owner.
func Left(t testing.TB, host, owner string) int {
	t.Helper()
	c, err := newClient(host)
	if err != nil {
		t.Fatal(err)
	}
	q := filter("label", labelOwner+"="+owner)
	q.Set("all", "1")
	var containers, images []labelled
	var volumes struct{ Volumes []labelled }
	for path, out := range map[string]any{"/containers/json": &containers, "/images/json": &images, "/volumes": &volumes} {
		if err := c.call(t.Context(), "GET", path, q, nil, out); err != nil {
			t.Fatal(err)
		}
	}
	return len(containers) + len(images) + len(volumes.Volumes)
}
