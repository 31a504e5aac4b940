package external

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"slices"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// library is one shared library out of an image.
type library struct {
	name string
	data []byte
}

const (
	maxLibrary   = 128 << 20 // bytes of one
	maxLibraries = 200
	maxHops      = 10 // symbolic links to one file
)

// closure fetches the libraries of the image that the names lead to, and what
// those need in turn. have are libraries that came with the packages.
func closure(ctx context.Context, from sandbox.Trees, needed []string, have map[string]bool) (libs []library, missing []string, err error) {
	seen := map[string]bool{}
	queue := append(alwaysAlong(), needed...)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		inside := have[name] && !slices.Contains(core(), name)
		if seen[name] || inside || path.Base(name) != name || slices.Contains(loaderNames(), name) {
			continue
		}
		seen[name] = true
		data, err := findLibrary(ctx, from, name)
		if errors.Is(err, fs.ErrNotExist) {
			if slices.Contains(needed, name) {
				missing = append(missing, name)
			}
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("library %s: %w", name, err)
		}
		b, err := readELF(bytes.NewReader(data))
		if err != nil {
			return nil, nil, fmt.Errorf("library %s: %w", name, err)
		}
		queue = append(queue, b.needed...)
		if libs = append(libs, library{name, data}); len(libs) > maxLibraries {
			return nil, nil, fmt.Errorf("more than %d libraries", maxLibraries)
		}
	}
	slices.Sort(missing)
	return libs, missing, nil
}

func loaderNames() []string {
	var all []string
	for _, l := range loaders() {
		all = append(all, path.Base(l))
	}
	return append(all, "linux-vdso.so.1")
}

// libraryDirs are where images keep libraries, the machine's own form first.
func libraryDirs() []string {
	triple := "x86_64-linux-gnu"
	if runtime.GOARCH == "arm64" {
		triple = "aarch64-linux-gnu"
	}
	return []string{"/usr/local/lib", "/lib/" + triple, "/usr/lib/" + triple, "/lib64", "/usr/lib64", "/lib", "/usr/lib"}
}

func findLibrary(ctx context.Context, from sandbox.Trees, name string) ([]byte, error) {
	for _, d := range libraryDirs() {
		b, err := getFile(ctx, from, path.Join(d, name), maxLibrary)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, err := readELF(bytes.NewReader(b)); err == nil { // no linker script, no other machine's
			return b, nil
		}
	}
	return nil, fs.ErrNotExist
}

// getFile reads a file of a sandbox, following links as its own programs would.
func getFile(ctx context.Context, from sandbox.Trees, p string, most int64) ([]byte, error) {
	for range maxHops {
		var buf bytes.Buffer
		if err := from.Get(ctx, image.Path(p), &buf, most+4096); err != nil {
			return nil, err
		}
		r := tar.NewReader(&buf)
		h, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		switch h.Typeflag {
		case tar.TypeReg:
			return io.ReadAll(r)
		case tar.TypeSymlink:
			if p = path.Join(path.Dir(p), h.Linkname); path.IsAbs(h.Linkname) {
				p = h.Linkname
			}
		default:
			return nil, fs.ErrNotExist
		}
	}
	return nil, fmt.Errorf("%s: too many links", p)
}
