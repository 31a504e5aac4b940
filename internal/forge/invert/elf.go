package invert

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"assay/internal/forge"
	"assay/internal/image"
)

// elfs are faults of compiled files and of the libraries they ask for. Nothing
// that a shell needs is touched: what cannot be looked at cannot be mended.
// What cannot be computed back from the file itself is only done to what a
// build of the project makes again.
func elfs() []Operator {
	op := func(number int, name string, realism int, hint string) Operator {
		return Operator{Name: "elf-" + name, Number: number, Ecosystem: Native, Family: Exotic, Realism: realism, Hint: hint}
	}
	binary, library := "the compiled files that are loaded", "the libraries that programs ask for"
	return []Operator{
		patched(op(28, "wrong-machine", 3, binary), true, wrongMachine),
		patched(op(0, "header-zeroed", 3, binary), true, func(b []byte, _ *elf.File) []patch { return []patch{{"magic", 0, []byte{0, 0, 0, 0}}} }),
		patched(op(0, "wrong-class", 2, binary), true, func(b []byte, _ *elf.File) []patch { return []patch{{"class", 4, []byte{3 - b[4]}}} }),
		patched(op(0, "interpreter", 3, binary), false, interpreter),
		patched(op(0, "needed", 4, library), true, neededName),
		patched(op(0, "run-path", 4, library), false, runPath),
		chosen(op(54, "truncated", 3, binary), elfTruncated),
		chosen(op(55, "library-link", 5, library), libraryLinks),
		chosen(op(0, "library-moved", 4, library), libraryMoved),
		chosen(op(0, "loader-cache", 3, library), loaderCache),
	}
}

type binaryFile struct {
	path  string
	size  int64
	built bool // of the project's own build
	typ   elf.Type
}

const maxBinaries = 120

// binaries are compiled files of the project, the small ones first: its own
// and those of packages that lie below it.
func binaries(g *Ground) []binaryFile {
	var all []binaryFile
	_ = g.Tree.Walk(g.Dir(), func(e image.Entry) error {
		p := "/" + e.Path
		if e.Type != image.TypeFile || e.Size < 64 || len(all) >= 4*maxBinaries || !g.Ours(p) || strings.Contains(p, "/CMakeFiles/") {
			return nil
		}
		n := path.Base(p)
		if e.Mode&0o111 == 0 && !strings.Contains(n, ".so") && path.Ext(n) != ".node" || path.Ext(n) == ".py" || path.Ext(n) == ".sh" {
			return nil
		}
		if t, ok := elfType(g, p); ok {
			built := !strings.Contains(p, "/node_modules/") && !strings.Contains(p, "/site-packages/") && !strings.Contains(p, "/dist-packages/")
			all = append(all, binaryFile{p, e.Size, built, t})
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b binaryFile) int { return int(a.size - b.size) })
	return all[:min(len(all), maxBinaries)]
}

func elfType(g *Ground, p string) (elf.Type, bool) {
	f, err := g.Tree.Open(p)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	var head [18]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || string(head[:4]) != elf.ELFMAG || head[5] != 1 {
		return 0, false
	}
	return elf.Type(binary.LittleEndian.Uint16(head[16:])), true
}

// patch is some bytes of a file as they become.
type patch struct {
	what string
	at   int64
	with []byte
}

const maxPatched = 1 << 20 // bytes of a file that is stored whole for a few of them

// patched makes an operator that changes bytes of compiled files in place. The
// file's time stays, so that a build does not make it again unasked.
func patched(o Operator, packages bool, find func(b []byte, f *elf.File) []patch) Operator {
	return chosen(o, func(g *Ground) []choice {
		var all []choice
		for _, bin := range binaries(g) {
			if bin.size > maxPatched || !bin.built && !packages || bin.typ == elf.ET_REL {
				continue
			}
			b, ok := g.Bytes(bin.path)
			if !ok {
				continue
			}
			f, err := elf.NewFile(bytes.NewReader(b))
			if err != nil {
				continue
			}
			for _, p := range find(b, f) {
				if p.at < 0 || p.at+int64(len(p.with)) > int64(len(b)) {
					continue
				}
				all = append(all, choice{Site{Path: bin.path, What: p.what}, func(*rand.Rand) (forge.Delta, error) {
					next := slices.Clone(b)
					copy(next[p.at:], p.with)
					return g.pinned(bin.path, next), nil
				}})
			}
		}
		return all
	})
}

func wrongMachine(_ []byte, f *elf.File) []patch {
	other := elf.EM_AARCH64
	if f.Machine == other {
		other = elf.EM_X86_64
	}
	return []patch{{"machine", 18, binary.LittleEndian.AppendUint16(nil, uint16(other))}}
}

func interpreter(b []byte, f *elf.File) []patch {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz > 8 && p.Off+p.Filesz <= uint64(len(b)) {
			name := strings.TrimRight(string(b[p.Off:p.Off+p.Filesz]), "\x00")
			if i := strings.LastIndexAny(name, "0123456789"); i >= 0 {
				return []patch{{"loader", int64(p.Off) + int64(i), []byte{other(name[i])}}}
			}
		}
	}
	return nil
}

// other is another digit, or another letter.
func other(c byte) byte {
	switch {
	case c >= '0' && c < '9' || c >= 'a' && c < 'z':
		return c + 1
	case c == '9':
		return '3'
	}
	return 'o'
}

// dynamicString finds a string of the dynamic section in the file.
func dynamicString(f *elf.File, s string) int64 {
	sec := f.Section(".dynstr")
	if sec == nil {
		return -1
	}
	b, err := sec.Data()
	if err != nil {
		return -1
	}
	i := bytes.Index(b, append(append([]byte{0}, s...), 0))
	if i < 0 {
		return -1
	}
	return int64(sec.Offset) + int64(i) + 1
}

func neededName(_ []byte, f *elf.File) []patch {
	var all []patch
	libs, err := f.ImportedLibraries()
	if err != nil {
		return nil
	}
	for _, l := range libs {
		if i := strings.LastIndexAny(l, "0123456789"); i >= 0 {
			if at := dynamicString(f, l); at > 0 {
				all = append(all, patch{l, at + int64(i), []byte{other(l[i])}})
			}
		}
	}
	return all
}

func runPath(_ []byte, f *elf.File) []patch {
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		s, err := f.DynString(tag)
		if err != nil || len(s) == 0 || s[0] == "" {
			continue
		}
		last := len(strings.TrimRight(s[0], "/:")) - 1
		if at := dynamicString(f, s[0]); at > 0 && last > 0 {
			return []patch{{"run path", at + int64(last), []byte{other(s[0][last])}}}
		}
	}
	return nil
}

// elfTruncated cuts what a linker was writing when the disk was full, or
// leaves nothing of it.
func elfTruncated(g *Ground) []choice {
	var all []choice
	for _, b := range binaries(g) {
		if !b.built || b.typ == elf.ET_REL {
			continue
		}
		for _, n := range []int64{min(b.size/2, 48<<10) &^ 511, 0} {
			all = append(all, choice{Site{Path: b.path, What: fmt.Sprint(n)}, func(*rand.Rand) (forge.Delta, error) {
				f, err := g.Tree.Open(b.path)
				if err != nil {
					return nil, fmt.Errorf("truncate %s: %w", b.path, err)
				}
				defer f.Close()
				head, err := io.ReadAll(io.LimitReader(f, n))
				if err != nil {
					return nil, fmt.Errorf("truncate %s: %w", b.path, err)
				}
				return g.pinned(b.path, head), nil
			}})
		}
	}
	return all
}
