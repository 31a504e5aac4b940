package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// HostName is the name of the pseudo-image that Host makes.
const HostName = "host"

// HostOptions shape Host. The zero value offers what this machine has below
// /usr.
type HostOptions struct {
	// Root is this machine's root directory; empty means "/".
	Root HostPath
	// Toolchains are further directories of this machine, bound at their own
	// path, with their bin in front of PATH. Absolute, and never a place that
	// holds what is not everybody's: see forbidden.
	Toolchains []HostPath
}

// Host makes the pseudo-image "host": read-only binds of this machine's
// toolchains over a generated layer, by an allow-list:
//
//   - /usr; and /bin, /sbin, /lib, /lib32, /lib64, /libx32: as links where they
//     are links into /usr, as binds where they are directories;
//   - the named toolchains;
//   - a generated /etc, with copies of few things that tools below /usr look
//     for there (etcAllowed), and only of what every user of this machine can
//     read; of /etc/alternatives the links into /usr;
//   - empty directories for everything else.
//
// Nothing else of this machine is in it. Its id digests the allow-list, the
// generated layer and the identity of its tools: path, size and modification
// time of well-known programs and of the C library. Nothing is run to find
// versions, and a package that brings none of these tools does not change the
// id.
//
// Such an image is good for trying things out: a task that is published names
// an image that others have too.
func (s *Store) Host(ctx context.Context, o HostOptions) (Image, error) {
	if o.Root == "" {
		o.Root = "/"
	}
	root, err := os.OpenRoot(string(o.Root))
	if err != nil {
		return Image{}, fmt.Errorf("host image: %w", err)
	}
	defer root.Close()
	h := hostReader{o: o, root: root}
	im, err := h.image(ctx, s)
	if err != nil {
		return Image{}, fmt.Errorf("host image: %w", err)
	}
	return im, s.Put(im)
}

type hostReader struct {
	o     HostOptions
	root  *os.Root
	files []hostEntry // of the layer; some tens, with contents
	binds []Bind
	paths []string // bin directories of toolchains
}

type hostEntry struct {
	Entry
	content []byte
}

func (h *hostReader) add(e Entry, content []byte) {
	h.files = append(h.files, hostEntry{e, content})
}

func (h *hostReader) image(ctx context.Context, s *Store) (Image, error) {
	for _, step := range []func() error{h.usr, h.toolchains, h.generated, h.copied, h.alternatives} {
		if err := step(); err != nil {
			return Image{}, err
		}
	}
	id, err := h.layer(ctx, s)
	if err != nil {
		return Image{}, err
	}
	search := append(slices.Clone(h.paths), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
	return New(HostName, []LayerID{id}, h.binds, Config{
		Env:    []string{"PATH=" + strings.Join(search, ":"), "HOME=/root", "LANG=C.UTF-8"},
		Labels: map[string]string{"assay.host.tools": h.tools(search), "assay.host.os": h.osName()},
	}), nil
}

// layer writes what was collected, unless the last time gave the same.
func (h *hostReader) layer(ctx context.Context, s *Store) (LayerID, error) {
	sum := sha256.New()
	for _, f := range h.files {
		sum.Write(f.append(nil))
		fmt.Fprintf(sum, "%d\n", len(f.content))
		sum.Write(f.content)
	}
	key := "host layer 1 " + hex.EncodeToString(sum.Sum(nil))
	if id, ok := s.Cached(key); ok && id != "" {
		return id, nil
	}
	w, err := s.NewLayer(ctx)
	if err != nil {
		return "", err
	}
	defer w.Abort()
	for _, f := range h.files {
		if err := w.Add(f.Entry, bytes.NewReader(f.content)); err != nil {
			return "", err
		}
	}
	id, err := w.Commit()
	if err != nil {
		return "", err
	}
	return id, s.Cache(key, id)
}

func (h *hostReader) bind(p string) {
	h.binds = append(h.binds, Bind{Source: HostPath(filepath.Join(string(h.o.Root), p)), Target: Path("/" + p)})
	h.add(Entry{Path: p, Type: TypeDir, Mode: 0o755}, nil)
}

func (h *hostReader) usr() error {
	fi, err := h.root.Lstat("usr")
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return errors.New("/usr is not a directory")
	}
	h.bind("usr")
	for _, d := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		fi, err := h.root.Lstat(d)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if fi.IsDir() {
			h.bind(d)
		} else if to, err := h.root.Readlink(d); err == nil && under(clean(to), "usr") {
			h.add(Entry{Path: d, Type: TypeSymlink, Link: to}, nil)
		} else {
			return fmt.Errorf("/%s is neither a directory nor a link into /usr", d)
		}
	}
	return nil
}

// forbidden are places that hold what is not everybody's. None may be a
// toolchain, hold one or lie in one.
func forbidden() []string {
	return []string{"home", "root", "var", "etc", "proc", "sys", "dev", "run", "boot", "tmp"}
}

func (h *hostReader) toolchains() error {
	bad := append(forbidden(), h.homes()...)
	for _, t := range h.o.Toolchains {
		if !path.IsAbs(string(t)) {
			return fmt.Errorf("toolchain %q: not an absolute path", t)
		}
		p := clean(string(t))
		// What counts is where the path leads, not only how it is spelled.
		real, err := filepath.EvalSymlinks(filepath.Join(string(h.o.Root), p))
		if err != nil {
			return fmt.Errorf("toolchain %q: %w", t, err)
		}
		rootReal, err := filepath.EvalSymlinks(string(h.o.Root))
		if err != nil {
			return err
		}
		r, err := filepath.Rel(rootReal, real)
		if err != nil || strings.HasPrefix(r, "..") {
			return fmt.Errorf("toolchain %q leads out of %s", t, h.o.Root)
		}
		for _, q := range []string{p, r} {
			if q == "" || q == "." {
				return fmt.Errorf("toolchain %q: the root directory is not a toolchain", t)
			}
			for _, b := range bad {
				if under(q, b) || under(b, q) {
					return fmt.Errorf("toolchain %q: /%s may hold what is private to this machine; copy the toolchain elsewhere, e.g. below /opt", t, b)
				}
			}
		}
		if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
			return fmt.Errorf("toolchain %q is not a directory", t)
		}
		h.paths = append(h.paths, "/"+p+"/bin")
		if under(r, "usr") && r == p {
			continue // there already
		}
		h.binds = append(h.binds, Bind{Source: HostPath(real), Target: Path("/" + p)})
		h.add(Entry{Path: p, Type: TypeDir, Mode: 0o755}, nil)
	}
	return nil
}

// homes returns the home directories of people on this machine.
func (h *hostReader) homes() []string {
	b, _ := h.root.ReadFile("etc/passwd") // without it there are the usual places
	var all []string
	for l := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(l), ":")
		if len(f) != 7 {
			continue
		}
		system := len(f[2]) < 4 && f[2] != "0" || f[2] == "65534" // below 1000
		if d := clean(f[5]); d != "" && !system {
			all = append(all, d)
		}
	}
	return all
}

// hostTools are the programs whose change makes another image.
func hostTools() []string {
	return strings.Fields(`sh bash dash busybox coreutils ls sed awk gawk mawk grep find tar gzip xz make cmake
		ninja python3 python pip3 pip node npm ruby perl php lua java javac kotlinc scala go gofmt rustc cargo gcc
		g++ cc clang ld as git sqlite3 psql ghc ocaml erl elixir dotnet mono R julia swift zig nim tclsh guile sbcl
		curl wget jq openssl`)
}

// tools digests the identity of the well-known programs and the C library.
func (h *hostReader) tools(search []string) string {
	sum := sha256.New()
	note := func(p string) {
		fi, err := h.stat(p)
		if err == nil && fi.Mode().IsRegular() {
			fmt.Fprintf(sum, "%s %d %d\n", p, fi.Size(), fi.ModTime().Unix())
		}
	}
	for _, t := range hostTools() {
		for _, d := range search {
			note(d + "/" + t)
		}
	}
	for _, pattern := range []string{"usr/lib*/libc.so.6", "usr/lib/*/libc.so.6", "usr/lib/ld-musl-*.so.1", "lib/ld-musl-*.so.1"} {
		libs, _ := fs.Glob(h.root.FS(), pattern) // the patterns are well formed
		for _, l := range libs {
			note("/" + l)
		}
	}
	for _, t := range h.o.Toolchains {
		for _, v := range []string{"VERSION", "version", "release"} {
			b, err := os.ReadFile(filepath.Join(string(h.o.Root), string(t), v))
			if err == nil {
				fmt.Fprintf(sum, "%s/%s %q\n", t, v, b[:min(len(b), 4096)])
			}
		}
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// stat follows links as they lead below Root, where absolute ones are meant.
func (h *hostReader) stat(p string) (fs.FileInfo, error) {
	for range maxLinks {
		rel := clean(p)
		fi, err := h.root.Stat(rel)
		if err == nil {
			return fi, nil
		}
		// os.Root refuses absolute links: take that step by hand.
		to, e := h.root.Readlink(rel)
		if e != nil {
			return nil, err
		}
		if !path.IsAbs(to) {
			to = path.Join(path.Dir("/"+rel), to)
		}
		p = to
	}
	return nil, errLoop
}

// osName returns the system's name for people, empty if it has none.
func (h *hostReader) osName() string {
	for _, p := range []string{"usr/lib/os-release", "etc/os-release"} {
		b, err := h.root.ReadFile(p)
		if err != nil {
			continue
		}
		for l := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(l), "PRETTY_NAME="); ok {
				return strings.Trim(v, `"`)
			}
		}
	}
	return ""
}
