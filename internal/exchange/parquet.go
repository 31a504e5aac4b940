package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parquet-go/parquet-go"
)

// readParquet reads rows of a Parquet file, as data-set servers publish them.
// Its records have no bytes of their own: each becomes a JSON object with the
// file's columns, in the file's order.
func readParquet(path string) (rows []*Row, layout Layout, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, layout, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, layout, err
	}
	if !info.Mode().IsRegular() || info.Size() > MaxFile {
		return nil, layout, fmt.Errorf("%s: not a regular file of at most %d MiB", path, MaxFile>>20)
	}
	defer func() { // the library panics on some broken files
		if r := recover(); r != nil {
			rows, err = nil, fmt.Errorf("%s: not a Parquet file that can be read: %v", path, r)
		}
	}()
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return nil, layout, fmt.Errorf("%s: not a Parquet file: %w", path, err)
	}
	if n := file.NumRows(); n < 0 || n > MaxItems {
		return nil, layout, fmt.Errorf("%s: %d rows (at most %d)", path, n, MaxItems)
	}
	var data bytes.Buffer
	if err := parquetLines(file, &data); err != nil {
		return nil, layout, fmt.Errorf("%s: %w", path, err)
	}
	return parseRows(data.Bytes(), path)
}

// parquetLines writes every row as a JSON object on a line of its own.
func parquetLines(file *parquet.File, out *bytes.Buffer) error {
	in := parquet.NewGenericReader[any](file, file.Schema())
	defer in.Close()
	fields := file.Schema().Fields()
	batch := make([]any, 16)
	for {
		n, err := in.Read(batch)
		for _, v := range batch[:n] {
			m, ok := v.(map[string]any)
			if !ok {
				return fmt.Errorf("a row of kind %T", v)
			}
			out.WriteByte('{')
			for i, f := range fields {
				if i > 0 {
					out.WriteByte(',')
				}
				if err := writeMember(out, f.Name(), m[f.Name()]); err != nil {
					return fmt.Errorf("column %s: %w", f.Name(), err)
				}
			}
			out.WriteString("}\n")
			if out.Len() > MaxFile {
				return fmt.Errorf("larger than %d MiB as JSON", MaxFile>>20)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func writeMember(out *bytes.Buffer, key string, v any) error {
	k, err := json.Marshal(key)
	if err != nil {
		return err
	}
	b, err := plainJSON(plainValue(v))
	if err != nil {
		return err
	}
	out.Write(k)
	out.WriteByte(':')
	out.Write(b)
	return nil
}

// plainValue turns what the library makes of logical types into JSON's.
func plainValue(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case map[string]any:
		if list, ok := v["list"].([]any); ok && len(v) == 1 { // the three levels of a list
			all := make([]any, 0, len(list))
			for _, e := range list {
				if m, ok := e.(map[string]any); ok && len(m) == 1 {
					for _, inner := range m {
						e = inner
					}
				}
				all = append(all, plainValue(e))
			}
			return all
		}
		for k, e := range v {
			v[k] = plainValue(e)
		}
		return v
	case []any:
		for i, e := range v {
			v[i] = plainValue(e)
		}
		return v
	}
	return v
}

// plainJSON is json.Marshal without the escaping of <, > and &.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
