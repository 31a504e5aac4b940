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
	all, err := (&Backend{api: c, owner: owner}).owned(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(all.containers) + len(all.images) + len(all.volumes) + len(all.networks)
}
