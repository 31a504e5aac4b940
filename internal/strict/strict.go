// Package strict decodes TOML files of people: every key that a file's form
// does not know is a fault, and every fault has its place. It knows no form and
// reads no files.
package strict

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	Line, Column int      // from 1; 0: of no one place
	Key          []string // empty: of no one key
	Unknown      bool     // the key is none of the form
	Err          error    // nil if Unknown
}

// TOML decodes b into v, over what stands there, and returns what is wrong;
// nothing when all is right.
func TOML(b []byte, v any) []Fault {
	if line, deep := nested(b); deep {
		return []Fault{{Line: line, Column: 1, Err: fmt.Errorf("lists or tables nested deeper than %d", maxNesting)}}
	}
	err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(v)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown) && len(unknown.Errors) > 0:
		var all []Fault
		for _, e := range unknown.Errors {
			line, col := e.Position()
			all = append(all, Fault{Line: line, Column: col, Key: e.Key(), Unknown: true})
		}
		return all
	case errors.As(err, &wrong):
		line, col := wrong.Position()
		return []Fault{{Line: line, Column: col, Key: wrong.Key(), Err: errors.New(strings.TrimPrefix(wrong.Error(), "toml: "))}}
	}
	return []Fault{{Err: err}}
}

// Errors tells faults with their places in the file; nil for none. unknown is
// what is said of a key that is none of the form, with a verb for its name: "a
// job has no key %q".
func Errors(file string, faults []Fault, unknown string) error {
	var all []error
	for _, f := range faults {
		at := file
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d:%d", file, f.Line, f.Column)
		}
		if f.Unknown {
			all = append(all, fmt.Errorf("%s: "+unknown, at, strings.Join(f.Key, ".")))
		} else {
			all = append(all, fmt.Errorf("%s: %w", at, f.Err))
		}
	}
	return errors.Join(all...)
}
