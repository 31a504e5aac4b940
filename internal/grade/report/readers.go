package report

import (
	"fmt"
	"strings"
)

// Readers lists every format that a check plan may name, in the order of
// docs/test-reports.md.
func Readers() []Reader {
	return append([]Reader{
		pytestJUnit(),
		pytestLog(),
		unittestLog(),
		djangoLog(),
		jestJSON(),
		vitestJSON(),
		nodeTest(),
		mochaJSON(),
		mochaLog(),
		tapStream(),
		goTest(),
		cargoTest(),
		nextest(),
		junit(),
		ctest(),
	}, parityReaders()...)
}

// ReaderOf finds a format's reader.
func ReaderOf(f Format) (Reader, error) {
	var names []string
	for _, r := range Readers() {
		if r.Format == f {
			return r, nil
		}
		if !r.Parity {
			names = append(names, string(r.Format))
		}
	}
	return Reader{}, fmt.Errorf("no report format is called %q (there are %s)", f, strings.Join(names, ", "))
}

// Read makes a report of what a command left, and holds it against the
// command's exit status. An error is an [Error].
func Read(f Format, sources []Source, exit int) (*Report, error) {
	rd, err := ReaderOf(f)
	if err != nil {
		return nil, err
	}
	var all int
	for _, s := range sources {
		if all += len(s.Data); all > MaxBytes || len(sources) > MaxSources {
			return nil, &Error{Format: f, Source: s.Name, Detail: fmt.Sprintf("more than %d bytes or %d files", MaxBytes, MaxSources)}
		}
	}
	r, err := rd.Read(sources)
	if err != nil {
		return nil, err
	}
	r.Format = f
	for _, s := range sources {
		if s.Cut {
			r.Flags = append(r.Flags, Flag{Kind: FlagCut, Detail: s.Name + " is larger than what was kept of it"})
		}
	}
	if why, ok := rd.Agrees(r, exit); !ok {
		r.Flags = append(r.Flags, Flag{Kind: FlagExit, Detail: why})
	}
	return r, nil
}
