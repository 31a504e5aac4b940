package external

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// packer turns the tree that an installation made into that of a layer, as a
// tar stream: what the recipe prunes is left out, programs are led to the
// layer's own loader, scripts to its own interpreter, and everything can be
// read by every user.
type packer struct {
	recipe Recipe
	place  image.Path
	spool  *os.File // one ELF file at a time
	out    *tar.Writer

	record  *Record
	needed  map[string]bool // libraries that programs name
	have    map[string]bool // base names of libraries among the packages
	paths   []string        // of files and links, for Programs
	notes   map[string][]byte
	dynamic bool // some program has glibc's loader
}

// notesDir is where the scripts leave what the record is made of.
const notesDir = ".assay"

const (
	maxNote    = 64 << 20 // bytes of one file of notesDir
	maxShebang = 512      // bytes of a script's first line
	elfMagic   = "\x7fELF"
)

// tree packs the tree at place of a sandbox, then what it needs of the image.
func (p *packer) tree(ctx context.Context, sb sandbox.Trees) error {
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := sb.Get(ctx, p.place, pw, 0)
		pw.CloseWithError(err)
		done <- err
	}()
	err := p.entries(tar.NewReader(pr))
	if err == nil {
		_, err = io.Copy(io.Discard, pr)
	}
	pr.CloseWithError(errors.New("the layer is done"))
	if got := <-done; err == nil {
		err = got
	}
	if err != nil {
		return err
	}
	if p.dynamic {
		if err := p.runtime(ctx, sb); err != nil {
			return err
		}
	}
	return p.programs()
}

func (p *packer) entries(in *tar.Reader) error {
	for {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.entry(h, in); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

func (p *packer) entry(h *tar.Header, in io.Reader) error {
	name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	if path.Dir(name) == notesDir && h.Typeflag == tar.TypeReg {
		b, err := io.ReadAll(io.LimitReader(in, maxNote))
		p.notes[path.Base(name)] = b
		return err
	}
	if name == notesDir || p.pruned(name) {
		return nil
	}
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	h.Mode = h.Mode&0o777 | 0o444
	if h.Mode&0o111 != 0 || h.Typeflag == tar.TypeDir || p.named(name) {
		h.Mode |= 0o111
	}
	switch h.Typeflag {
	case tar.TypeReg:
		p.paths = append(p.paths, name)
		p.record.Files++
		return p.file(name, h, in)
	case tar.TypeSymlink, tar.TypeLink:
		p.paths = append(p.paths, name)
	case tar.TypeDir:
	default:
		return nil // sockets and devices are of no use
	}
	return p.out.WriteHeader(h)
}

// named reports whether the recipe calls a file a program.
func (p *packer) named(name string) bool {
	for _, g := range p.recipe.Install.Programs {
		if ok, err := path.Match(path.Clean(g), name); ok && err == nil {
			return true
		}
	}
	return false
}

func (p *packer) pruned(name string) bool {
	for d := name; d != "."; d = path.Dir(d) {
		for _, g := range p.recipe.Install.Prune {
			if ok, err := path.Match(path.Clean(g), d); ok && err == nil {
				return true
			}
		}
	}
	return false
}

func (p *packer) file(name string, h *tar.Header, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	head, err := r.Peek(maxShebang)
	if err != nil && err != io.EOF {
		return err
	}
	switch {
	case bytes.HasPrefix(head, []byte(elfMagic)):
		return p.program(name, h, r)
	case bytes.HasPrefix(head, []byte("#!")):
		line, _, ok := bytes.Cut(head, []byte("\n"))
		if new := p.shebang(string(line)); ok && new != string(line) {
			if _, err := r.Discard(len(line)); err != nil {
				return err
			}
			h.Size += int64(len(new) - len(line))
			return p.write(h, io.MultiReader(strings.NewReader(new), r))
		}
	}
	return p.write(h, r)
}

func (p *packer) write(h *tar.Header, r io.Reader) error {
	p.record.Bytes += h.Size
	if err := p.out.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(p.out, r)
	return err
}

// shebang leads a script to the layer's own interpreter: the task's image may
// have none, or another. The kernel gives an interpreter one argument at most.
func (p *packer) shebang(line string) string {
	f := strings.Fields(strings.TrimPrefix(line, "#!"))
	if len(f) > 0 && path.Base(f[0]) == "env" {
		f = f[1:]
		if len(f) > 0 && f[0] == "-S" {
			f = f[1:]
		}
	}
	if len(f) == 0 {
		return line
	}
	own := string(p.place) + "/bin/"
	switch base := path.Base(f[0]); {
	case p.recipe.Install.Runtime == RuntimeNode && base == "node" && len(f) <= 2:
		return "#!" + strings.Join(append([]string{own + "node"}, f[1:]...), " ")
	case p.recipe.Install.Runtime == RuntimePython && strings.HasPrefix(base, "python") && len(f) == 1:
		// I: variables of the task's image, such as PYTHONPATH, are not for the
		// agent. u: what it has printed is there when it is killed.
		return "#!" + own + "python3 -Iu"
	}
	return line
}

// program notes what an ELF file needs and leads it to the layer's loader.
func (p *packer) program(name string, h *tar.Header, in io.Reader) error {
	if err := p.spool.Truncate(0); err != nil {
		return err
	}
	if _, err := p.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(p.spool, in)
	if err != nil {
		return err
	}
	if n != h.Size {
		return io.ErrUnexpectedEOF
	}
	b, err := readELF(p.spool)
	if err == nil { // others are carried as they are: no program here can use them
		patch, err := b.interpPatch(p.place)
		if err != nil {
			return err
		}
		if patch != nil {
			p.dynamic = true
			if _, err := p.spool.WriteAt(patch, b.at); err != nil {
				return err
			}
		}
		for _, l := range b.needed {
			p.needed[l] = true
		}
		p.have[path.Base(name)] = true
	}
	if _, err := p.spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.write(h, p.spool)
}

// runtime adds loader and libraries.
func (p *packer) runtime(ctx context.Context, sb sandbox.Trees) error {
	libs, missing, err := closure(ctx, sb, slices.Sorted(maps.Keys(p.needed)), p.have)
	if err != nil {
		return err
	}
	p.record.Missing = missing
	if slices.Contains(missing, "libc.so.6") {
		return errors.New("the image has no glibc; install upon one that has it: --image debian:bookworm")
	}
	ld, err := getFile(ctx, sb, loaders()[0], maxLibrary)
	if err != nil {
		return fmt.Errorf("the C library's loader %s: %w; install upon an image with glibc: --image debian:bookworm", loaders()[0], err)
	}
	if ld, err = patchLoader(ld, p.place); err != nil {
		return err
	}
	if err := p.out.WriteHeader(&tar.Header{Name: libDir, Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
		return err
	}
	libs = append(libs, library{"ld.so", ld})
	var names []string
	for _, l := range libs {
		if l.name == "libc.so.6" {
			p.record.Libc = libcVersion(l.data)
		}
		if l.name != "ld.so" {
			names = append(names, l.name)
		}
		if err := p.add(path.Join(libDir, l.name), 0o755, l.data); err != nil {
			return err
		}
	}
	slices.Sort(names)
	p.record.Libraries = names
	return p.add("p", 0o644, preloads(p.place, names))
}

func (p *packer) add(name string, mode int64, b []byte) error {
	p.record.Files++
	return p.write(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(b))}, bytes.NewReader(b))
}

// programs makes the links of Install.Programs.
func (p *packer) programs() error {
	if err := p.out.WriteHeader(&tar.Header{Name: "bin", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.recipe.Install.Programs)) {
		glob := path.Clean(p.recipe.Install.Programs[name])
		var found []string
		for _, f := range p.paths {
			if ok, err := path.Match(glob, f); ok && err == nil {
				found = append(found, f)
			}
		}
		if len(found) != 1 {
			return fmt.Errorf("program %q: %d files are %s, one is needed: %.300q", name, len(found), glob, found)
		}
		if err := p.out.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "../" + found[0], Mode: 0o777}); err != nil {
			return err
		}
	}
	return nil
}
