package ns

import (
	"archive/tar"
	"bytes"
	"sync"
	"testing"
	"time"

	"assay/internal/sandbox"
)

// A program that was just put into a sandbox starts, although other sandboxes
// are being started: no child of the keeper's may hold it open for writing.
func TestProgramsPutWhileInitsStart(t *testing.T) {
	b, _ := open(t)
	var tree bytes.Buffer
	w := tar.NewWriter(&tree)
	text := append([]byte("#!/bin/sh\nexit 0\n"), bytes.Repeat([]byte("#\n"), 1<<20)...)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "run", Mode: 0o755, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	w.Write(text)
	w.Close()
	end := time.Now().Add(2 * time.Second)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for time.Now().Before(end) {
				s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage()})
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Put(t.Context(), "/p", bytes.NewReader(tree.Bytes())); err != nil {
					t.Error(err)
				}
				r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"/p/run"}}, sandbox.ExecOptions{})
				if err != nil || r.Exit.Code != 0 {
					t.Errorf("%v: exit %d %s", err, r.Exit.Code, r.Stderr)
				}
				s.Close()
			}
		})
	}
	wg.Wait()
}
