package invert

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path"
)

const (
	maxJarEntries = 2000
	laterJava     = 73 // the class file version of Java 29
)

// newerClasses makes a jar of the classes of another, as a later compiler
// would have marked them. Equal jars give equal bytes.
func newerClasses(jar []byte) ([]byte, error) {
	r, err := zip.NewReader(bytes.NewReader(jar), int64(len(jar)))
	if err != nil {
		return nil, fmt.Errorf("jar: %w", err)
	}
	if len(r.File) > maxJarEntries {
		return nil, fmt.Errorf("jar of %d entries: more than %d", len(r.File), maxJarEntries)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range r.File {
		if path.Ext(f.Name) != ".class" {
			continue
		}
		b, err := jarEntry(f)
		if err != nil {
			return nil, err
		}
		if len(b) > 8 && binary.BigEndian.Uint32(b) == 0xcafebabe {
			binary.BigEndian.PutUint16(b[6:], laterJava)
		}
		to, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: f.Modified})
		if err != nil {
			return nil, fmt.Errorf("jar: %w", err)
		}
		if _, err := to.Write(b); err != nil {
			return nil, fmt.Errorf("jar: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("jar: %w", err)
	}
	return out.Bytes(), nil
}

func jarEntry(f *zip.File) ([]byte, error) {
	in, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("jar: %s: %w", f.Name, err)
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, maxBinary+1))
	if err == nil && len(b) > maxBinary {
		err = fmt.Errorf("more than %d bytes", maxBinary)
	}
	if err != nil {
		return nil, fmt.Errorf("jar: %s: %w", f.Name, err)
	}
	return b, nil
}
