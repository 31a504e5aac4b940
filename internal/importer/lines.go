package importer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// Limits of one JSON Lines file.
const (
	MaxLine  = 32 << 20  // bytes of one line; some inputs of EvalPlus are large
	MaxTotal = 256 << 20 // bytes of all lines, decompressed
)

// Lines calls each for every line of the JSON Lines file src that is not
// blank, in order. A file that begins with gzip's magic number
// is decompressed. The bytes are only valid during the call. Every error,
// those of each included, is wrapped with file and line.
func Lines(src string, each func(line []byte) error) error {
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", src)
	}
	n, err := readLines(f, each)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", src, n, err)
	}
	return nil
}

// readLines returns the number of the line it stopped at.
func readLines(r io.Reader, each func(line []byte) error) (int, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return 1, fmt.Errorf("decompress: %w", err)
		}
		defer z.Close()
		in = bufio.NewReader(z)
	}
	limited := &io.LimitedReader{R: in, N: MaxTotal + 1}
	scan := bufio.NewScanner(limited)
	scan.Buffer(make([]byte, 64<<10), MaxLine)
	n := 0
	for scan.Scan() {
		n++
		if limited.N <= 0 {
			break
		}
		line := bytes.TrimSpace(scan.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := each(line); err != nil {
			return n, err
		}
	}
	if limited.N <= 0 {
		return n, fmt.Errorf("the file is larger than %d MiB decompressed", MaxTotal>>20)
	}
	if err := scan.Err(); errors.Is(err, bufio.ErrTooLong) {
		return n + 1, fmt.Errorf("the line is longer than %d bytes", MaxLine)
	} else if err != nil {
		return n + 1, fmt.Errorf("read: %w", err)
	}
	return n, nil
}
