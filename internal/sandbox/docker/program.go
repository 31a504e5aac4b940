package docker

import (
	"archive/tar"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/sandbox/docker/inside"
)

// mountPoint is where a container finds the program, in a volume.
const mountPoint = "/.assay"

// program is what runs first in every container: this one, with the C library
// it was linked to, if it was.
type program struct {
	files map[string]string // name below mountPoint → host path
	args  []string          // how it is started
	id    string            // digest of it all
}

// libraryDirs are where a C library can be.
var libraryDirs = [...]string{"/lib64", "/lib", "/usr/lib64", "/usr/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
	"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"}

func findProgram(path string) (*program, error) {
	if path == "" {
		p, err := os.Executable()
		if err != nil {
			return nil, err
		}
		path = p
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s is no Linux program, and containers need one inside: name a Linux build of assay for the engine's machine: %w", path, err)
	}
	defer f.Close()
	p := &program{files: map[string]string{"init": path}, args: []string{mountPoint + "/init"}}
	for _, s := range f.Progs {
		if s.Type != elf.PT_INTERP {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(s.Open(), 4096))
		if err != nil {
			return nil, err
		}
		loader := strings.TrimRight(string(b), "\x00")
		p.files["lib/loader"] = loader
		p.args = []string{mountPoint + "/lib/loader", "--library-path", mountPoint + "/lib", mountPoint + "/init"}
		if err := p.libraries(path); err != nil {
			return nil, err
		}
	}
	p.args = append(p.args, inside.Marker)
	sum := sha256.New()
	for _, name := range sortedKeys(p.files) {
		f, err := os.Open(p.files[name])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(sum, "%s\x00", name)
		_, err = io.Copy(sum, f)
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	p.id = hex.EncodeToString(sum.Sum(nil))[:24]
	return p, nil
}

// libraries adds what a file is linked to, and what that is.
func (p *program) libraries(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
next:
	for _, n := range names {
		if _, ok := p.files["lib/"+n]; ok || n != filepath.Base(n) {
			continue
		}
		for _, d := range libraryDirs {
			at := filepath.Join(d, n)
			if _, err := os.Stat(at); err == nil {
				p.files["lib/"+n] = at
				if err := p.libraries(at); err != nil {
					return err
				}
				continue next
			}
		}
		return fmt.Errorf("%s is linked to %s, which is not to be found: build assay with CGO_ENABLED=0", path, n)
	}
	return nil
}

// tar writes the program as a layer.
func (p *program) tar(w io.Writer) error {
	tw := tar.NewWriter(w)
	dir := strings.TrimPrefix(mountPoint, "/")
	for _, d := range []string{dir + "/", dir + "/lib/"} {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o755}); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(p.files) {
		f, err := os.Open(p.files[name])
		if err != nil {
			return err
		}
		fi, err := f.Stat()
		if err == nil {
			err = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: dir + "/" + name, Mode: 0o755, Size: fi.Size()})
		}
		if err == nil {
			_, err = io.CopyN(tw, f, fi.Size())
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return tw.Close()
}
