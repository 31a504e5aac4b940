package forge

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/image"
)

// FaultFile is the name of a fault's record. It lies below a task's tests/, so
// that it belongs to the key and no agent sees it.
const FaultFile = "fault.json"

// Fault is the record of a broken environment: what breaks a healthy image,
// and what mends it, exactly. Contents that the healthy image has are named,
// not held, so that a record is small.
type Fault struct {
	Version     int             `json:"v"`           // 2; 1 is read too, whose contents are never packed
	Environment string          `json:"environment"` // the healthy image's name
	Layers      []image.LayerID `json:"layers"`
	Operators   []string        `json:"operators,omitempty"`
	Break       Delta           `json:"break"`
	Mend        Delta           `json:"mend"`
}

// NewFault records a delta over a healthy image, with its times and inverse.
// later is the time of changed files under TimesLater, else zero.
func NewFault(name string, layers []image.LayerID, healthy *image.View, d Delta, operators []string, later time.Time) (*Fault, error) {
	f := &Fault{Version: 2, Environment: name, Layers: layers, Operators: operators}
	var err error
	if f.Break, err = d.On(healthy); err != nil {
		return nil, err
	}
	if f.Break, err = f.Break.stamp(healthy, later); err != nil {
		return nil, err
	}
	f.Mend, err = Invert(f.Break, healthy)
	return f, err
}

// faultFile is a record as it is written: longer contents are packed.
type faultFile struct {
	*Fault
	Break []packedEdit `json:"break"`
	Mend  []packedEdit `json:"mend"`
}

type packedEdit struct {
	Edit
	Data []byte `json:"data,omitempty"`
	Gzip []byte `json:"gzip,omitempty"` // instead of data
}

// minPacked is how long a content is that is worth packing, in bytes.
const minPacked = 512

func pack(d Delta) ([]packedEdit, error) {
	out := make([]packedEdit, len(d))
	for i, e := range d {
		out[i] = packedEdit{Edit: e, Data: e.Data}
		if len(e.Data) < minPacked {
			continue
		}
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err == nil {
			_, err = w.Write(e.Data)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			return nil, err
		}
		if b.Len() < len(e.Data) {
			out[i].Data, out[i].Gzip = nil, b.Bytes()
		}
	}
	return out, nil
}

// unpack reads contents, of which all together may have so many bytes.
func unpack(in []packedEdit, room int64) (Delta, error) {
	d := make(Delta, len(in))
	for i, p := range in {
		d[i] = p.Edit
		d[i].Data = p.Data
		if len(p.Gzip) == 0 {
			continue
		}
		if len(p.Data) > 0 {
			return nil, fmt.Errorf("%.200q has its content twice", p.Path)
		}
		r, err := gzip.NewReader(bytes.NewReader(p.Gzip))
		if err == nil {
			d[i].Data, err = io.ReadAll(io.LimitReader(r, room+1))
		}
		if err != nil {
			return nil, fmt.Errorf("%.200q: %w", p.Path, err)
		}
		if room -= int64(len(d[i].Data)); room < 0 {
			return nil, fmt.Errorf("more than %d bytes of content", maxData)
		}
	}
	return d, nil
}

// Encode is the record's file.
func (f *Fault) Encode() ([]byte, error) {
	out := faultFile{Fault: f}
	var err error
	if out.Break, err = pack(f.Break); err != nil {
		return nil, err
	}
	if out.Mend, err = pack(f.Mend); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(out, "", " ")
	return append(b, '\n'), err
}

const maxFault = 128 << 20 // bytes of a record

// ReadFault reads the record of a task.
func ReadFault(task string) (*Fault, error) {
	root, err := os.OpenRoot(task)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name := filepath.Join("tests", FaultFile)
	h, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if fi, err := h.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no regular file", filepath.Join(task, name)))
	}
	b, err := io.ReadAll(io.LimitReader(h, maxFault+1))
	if err != nil {
		return nil, err
	}
	f, err := DecodeFault(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(task, name), err)
	}
	return f, nil
}

// DecodeFault reads a record and refuses what no delta may say.
func DecodeFault(b []byte) (*Fault, error) {
	if len(b) > maxFault {
		return nil, fmt.Errorf("more than %d bytes", maxFault)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	f := &Fault{}
	in := faultFile{Fault: f}
	if err := d.Decode(&in); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("bytes after the record")
	}
	if f.Version != 1 && f.Version != 2 {
		return nil, fmt.Errorf("version %d of faults is not known here, only 1 and 2", f.Version)
	}
	var err error
	if f.Break, err = unpack(in.Break, maxData); err != nil {
		return nil, fmt.Errorf("break: %w", err)
	}
	if f.Mend, err = unpack(in.Mend, maxData); err != nil {
		return nil, fmt.Errorf("mend: %w", err)
	}
	if len(f.Break) == 0 {
		return nil, errors.New("it breaks nothing")
	}
	for _, l := range f.Layers {
		if hex := strings.TrimPrefix(string(l), "sha256:"); len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
			return nil, fmt.Errorf("%.80q is no layer", l)
		}
	}
	if err := f.Break.Check(); err != nil {
		return nil, fmt.Errorf("break: %w", err)
	}
	if err := f.Mend.Check(); err != nil {
		return nil, fmt.Errorf("mend: %w", err)
	}
	return f, nil
}

// Roots are the paths that the fault is about: below no other of them.
func (f *Fault) Roots() []string { return f.Break.roots() }
