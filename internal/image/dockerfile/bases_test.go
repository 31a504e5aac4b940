package dockerfile

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/image"
)

// Every image that a build takes from is named, those of stages that nobody
// needs are not, and one that is missing hides none behind it.
func TestBases(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	here := image.New("here:1", nil, nil, image.Config{OnBuild: []string{"COPY --from=trigger:1 /a /b"}})
	o := Options{Dir: image.HostPath(dir), Resolve: func(_ context.Context, name string) (image.Image, error) {
		if name == "here:1" {
			return here, nil
		}
		return image.Image{}, &image.MissingError{Ref: name}
	}}
	write("ARG V=2\nFROM away:$V AS one\nFROM unused:1 AS two\nFROM here:1\nCOPY --from=one /x /y\nCOPY --from=tool:3 /x /z\n" +
		"RUN --mount=type=bind,from=mounted:4,target=/m true\nCOPY --from=tool:3 /q /r\n")
	got, err := Bases(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if want := "away:2 here:1 mounted:4 tool:3 trigger:1"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	write("FROM scratch\nCOPY a /a\n")
	if got, err := Bases(t.Context(), o); err != nil || len(got) > 0 {
		t.Errorf("%q, %v: scratch is no image", got, err)
	}
	write("FROM here:1\nVOLUMES /x\n")
	if _, err := Bases(t.Context(), o); err == nil || !strings.Contains(err.Error(), "Dockerfile:2") {
		t.Errorf("%v: it should name file and line", err)
	}
}
