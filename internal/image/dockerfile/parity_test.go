package dockerfile_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/image/dockerfile"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

const parityBase = "assay-parity-base"

// stricter are the cases where Docker goes on and a build here fails.
var stricter = map[string]string{
	"several-without-slash": "Docker's own reference demands the slash; BuildKit writes all sources to one name",
	"unknown-user":          "BuildKit gives the directory to root without a word",
}

// Docker builds the same corpus, as far as it needs no program, and the trees
// and configurations are alike.
func TestParityWithDocker(t *testing.T) {
	if testing.Short() || os.Getenv("DOCKER_HOST") == "" {
		t.Skip("needs a Docker engine named by DOCKER_HOST")
	}
	docker := func(stdin *bytes.Buffer, args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), "docker", args...)
		if stdin != nil {
			c.Stdin = stdin
		}
		b, err := c.CombinedOutput()
		return string(b), err
	}
	if out, err := docker(nil, "version"); err != nil {
		t.Skipf("Docker does not answer: %s", out)
	}
	s := open(t)
	base(t, s)
	im, err := s.Resolve("base")
	if err != nil {
		t.Fatal(err)
	}
	im.Name = parityBase
	if err := s.Put(im); err != nil {
		t.Fatal(err)
	}
	var tarball bytes.Buffer
	if err := s.ToTar(t.Context(), im.Layers[0], &tarball); err != nil {
		t.Fatal(err)
	}
	if out, err := docker(&tarball, "import", "-c", "ENV PATH=/bin", "-c", "ENV LEVEL=base", "-c", `CMD ["/bin/sh"]`,
		"-c", "LABEL from=base", "-", parityBase); err != nil {
		t.Fatal(out)
	}
	defer docker(nil, "rmi", "-f", parityBase, "assay-parity-out")

	files, err := filepath.Glob("testdata/build/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.ReplaceAll(text, []byte("FROM base"), []byte("FROM "+parityBase))
			dir, _, args := unpack(t, txtar.Parse(text))
			d, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
			if err != nil {
				t.Fatal(err)
			}
			if regexp.MustCompile(`(?m)^(ARG IMAGE.*|RUN .*)$`).Match(d) {
				t.Skip("its commands are for the test's own sandbox")
			}
			if regexp.MustCompile(`--parents|--exclude|--chmod=[^0-9]`).Match(d) {
				t.Skip("younger than that engine")
			}
			call := []string{"build", "-q", "-t", "assay-parity-out"}
			for k, v := range args {
				call = append(call, "--build-arg", k+"="+v)
			}
			out, theirs := docker(nil, append(call, dir)...)
			if strings.Contains(out, "legacy builder") {
				t.Skip("Docker has no BuildKit here")
			}
			ours, err := dockerfile.Build(t.Context(), dockerfile.Options{Store: s, Dir: image.HostPath(dir), BuildArgs: args})
			if why := stricter[strings.TrimSuffix(filepath.Base(file), ".txtar")]; why != "" {
				if err == nil || theirs != nil {
					t.Errorf("here %v, Docker %v, though here it is stricter: %s", err, theirs, why)
				}
				return
			}
			if (err == nil) != (theirs == nil) {
				t.Fatalf("here %v, Docker %v: %s", err, theirs, out)
			}
			if err != nil {
				return
			}
			save := filepath.Join(t.TempDir(), "save.tar")
			if out, err := docker(nil, "save", "-o", save, "assay-parity-out"); err != nil {
				t.Fatal(out)
			}
			im, err := s.Import(t.Context(), image.HostPath(save), "theirs")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(sorted(describe(t, s, im)), sorted(describe(t, s, ours))); d != "" {
				t.Errorf("Docker (-), here (+):\n%s", d)
			}
		})
	}
}

// sorted lets the order of variables and the two spellings of the root as
// working directory count as equal.
func sorted(s string) []string {
	s = strings.Replace(s, `workdir "/" `, `workdir "" `, 1)
	l := strings.Split(s, "\n")
	slices.Sort(l)
	return l
}
