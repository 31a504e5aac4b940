package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"assay/internal/image/dockerfile"
	"assay/internal/mirrors"
)

// Packages whose scripts expect real users and owners are installed, and real
// builds of several languages done, in RUNs on a Debian base of "image
// bootstrap", with one user id alone.
//
// ASSAY_PACKAGES names a directory where the base is kept from run to run;
// ASSAY_PACKAGES_ALL=1 does all of testdata/packages, else quick.txtar. A
// machine whose mirror does not answer skips.
func TestPackages(t *testing.T) {
	cache := os.Getenv("ASSAY_PACKAGES")
	if cache == "" {
		t.Skip("ASSAY_PACKAGES names no directory for the base: not without being asked, it takes the network")
	}
	needSandbox(t)
	dir := scratch(t)
	run := func(t *testing.T, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		args = append([]string{"assay", "--store", filepath.Join(dir, "store")}, args...)
		if code := Main(args, World{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Env: os.LookupEnv}); code != 0 {
			t.Fatalf("%q: exit %d\n…%s", args, code, out.Bytes()[max(0, out.Len()-4000):])
		}
		return out.String()
	}
	base(t, cache, run)
	t.Run("mirror", func(t *testing.T) { aptMirror(t, filepath.Join(dir, "store")) })
	packages(t, run)
}

// base brings the Debian base into the store: the one of the last time, or a
// new one.
func base(t *testing.T, cache string, run func(*testing.T, ...string) string) {
	t.Helper()
	tarball := filepath.Join(cache, "debian-bookworm-"+baseKey(t)+".tar")
	if _, err := os.Stat(tarball); err == nil {
		run(t, "image", "import", tarball, "--name", "debian:bookworm")
	} else {
		if !strings.Contains(run(t, "image", "bootstrap", "debian", "bookworm"), "debian:bookworm") {
			t.Fatal("no base")
		}
		keepBase(t, tarball, func(to string) { run(t, "image", "export", "debian:bookworm", "-o", to) })
	}
}

func packages(t *testing.T, run func(*testing.T, ...string) string) {
	pattern := "quick"
	if os.Getenv("ASSAY_PACKAGES_ALL") == "1" {
		pattern = "*"
	}
	files, err := filepath.Glob("testdata/packages/" + pattern + ".txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing to build: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			context := scratch(t)
			for _, f := range a.Files {
				p := filepath.Join(context, f.Name)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, f.Data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			record := filepath.Join(scratch(t), "record.json")
			began := time.Now()
			out := run(t, "image", "build", "--inherit-mirrors", "--record", record, "-t", "built", context)
			b, err := os.ReadFile(record)
			if err != nil {
				t.Fatal(err)
			}
			var r dockerfile.Record
			if err := json.Unmarshal(b, &r); err != nil {
				t.Fatal(err)
			}
			var received int64
			for _, h := range r.Reached {
				received += h.Received
			}
			if !strings.Contains(out, "\nbuilt") || received < 1<<20 {
				t.Errorf("nothing was built, or nothing came from the network (%d bytes)\n%s", received, out)
			}
			t.Logf("%d steps, %.1f MB received, %.0f s", len(r.Steps), float64(received)/1e6, time.Since(began).Seconds())
		})
	}
}

// baseKey is what the base depends on: the release that this machine's mirror
// has now.
func baseKey(t *testing.T) string {
	t.Helper()
	a := &app{World: World{Env: os.LookupEnv}}
	s, err := mirrors.Read(a.machine())
	if err != nil {
		t.Fatal(err)
	}
	const public = "http://deb.debian.org/debian"
	from := s.AptMirror(public)
	if from == "" {
		from = public
	}
	client := &http.Client{Timeout: time.Minute}
	res, err := client.Get(from + "/dists/bookworm/InRelease")
	if err != nil {
		t.Skipf("no package mirror answers: %v", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Skipf("no package mirror answers: %s, %v", res.Status, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// keepBase makes the file for the next run in place of older ones; a directory
// that cannot be written keeps nothing.
func keepBase(t *testing.T, file string, export func(to string)) {
	t.Helper()
	dir := filepath.Dir(file)
	f, err := os.CreateTemp(dir, "new-")
	if err != nil {
		t.Logf("the base is not kept: %v", err)
		return
	}
	f.Close()
	defer os.Remove(f.Name())
	export(f.Name())
	old, _ := filepath.Glob(filepath.Join(dir, "debian-bookworm-*.tar"))
	for _, p := range old {
		os.Remove(p)
	}
	if err := errors.Join(os.Chmod(f.Name(), 0o644), os.Rename(f.Name(), file)); err != nil {
		t.Fatal(fmt.Errorf("keep the base: %w", err))
	}
}
