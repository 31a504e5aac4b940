package external

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"assay/internal/image"
)

// binary is what is known of one ELF file.
type binary struct {
	needed []string // names of libraries
	interp string   // path of its loader; empty: a library, or static
	at     int64    // where that path stands in the file
	room   int64    // bytes for it, the NUL counted
}

// errForeign: an ELF file of another machine, system or C library.
var errForeign = errors.New("not for this machine")

// readELF reads what an ELF file needs. The file is hostile: whatever it says,
// the answer is an error or something harmless.
func readELF(r io.ReaderAt) (binary, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return binary{}, fmt.Errorf("read ELF: %w", err)
	}
	defer f.Close()
	linux := f.OSABI == elf.ELFOSABI_NONE || f.OSABI == elf.ELFOSABI_LINUX
	if f.Class != elf.ELFCLASS64 || f.Machine != machine() || !linux {
		return binary{}, errForeign
	}
	var b binary
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		if p.Filesz == 0 || p.Filesz > 4096 {
			return b, fmt.Errorf("read ELF: a loader's path of %d bytes at %d", p.Filesz, p.Off)
		}
		path := make([]byte, p.Filesz)
		if _, err := r.ReadAt(path, int64(p.Off)); err != nil {
			return b, fmt.Errorf("read ELF: %w", err)
		}
		path, _, _ = bytes.Cut(path, []byte{0})
		b.interp, b.at, b.room = string(path), int64(p.Off), int64(p.Filesz)
	}
	b.needed, err = f.ImportedLibraries()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return b, fmt.Errorf("read ELF: %w", err)
	}
	for _, n := range b.needed {
		if strings.HasPrefix(n, "libc.") && n != "libc.so.6" || strings.HasPrefix(n, "ld-musl") {
			return b, errForeign
		}
	}
	return b, nil
}

func machine() elf.Machine {
	if runtime.GOARCH == "arm64" {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}

// loaders are the paths of glibc's loader that programs of the machine name.
func loaders() []string {
	if runtime.GOARCH == "arm64" {
		return []string{"/lib/ld-linux-aarch64.so.1"}
	}
	return []string{"/lib64/ld-linux-x86-64.so.2"}
}

// interpPatch is what to write at b.at so that the program is started by the
// layer's own loader. The file keeps its size: what is appended to programs
// (Bun, Node's single executables) is found from its end.
func (b binary) interpPatch(place image.Path) ([]byte, error) {
	if !slices.Contains(loaders(), b.interp) {
		return nil, nil
	}
	return fill(loaderPath(place), int(b.room)-1, 0, "its loader's path")
}

// libDir holds loader and libraries in a layer; one letter, for the paths must
// be short.
const libDir = "l"

func loaderPath(place image.Path) string  { return string(place) + "/" + libDir + "/ld.so" }
func preloadPath(place image.Path) string { return string(place) + "/p" }

// fill is s with pad behind it up to n bytes.
func fill(s string, n int, pad byte, what string) ([]byte, error) {
	if len(s) > n {
		return nil, fmt.Errorf("%s: %q does not fit into %d bytes", what, s, n)
	}
	return append([]byte(s), bytes.Repeat([]byte{pad}, n-len(s))...), nil
}
