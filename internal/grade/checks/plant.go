package checks

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Plant puts canaries into a file of a task's tests: each one's old text, where
// it stands in the file as it is, becomes the new one. All must be of that file.
func Plant(content []byte, canaries []Canary) ([]byte, error) {
	spots, err := spots(content, canaries)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	at := 0
	for _, s := range spots {
		b.Write(content[at:s.at])
		b.WriteString(s.New)
		at = s.at + len(s.Old)
	}
	b.Write(content[at:])
	return b.Bytes(), nil
}

// spot is where a canary's old text stands.
type spot struct {
	Canary
	at int
}

// spots finds where canaries stand in their file, in the file's order. The
// same change twice (two commands run one file) is one.
func spots(content []byte, canaries []Canary) ([]spot, error) {
	var all []spot
	for _, c := range canaries {
		at := bytes.Index(content, []byte(c.Old))
		if c.Old == "" || at < 0 {
			return nil, fmt.Errorf("%s: the text %.60q does not stand there", c.File, c.Old)
		}
		if bytes.LastIndex(content, []byte(c.Old)) != at {
			return nil, fmt.Errorf("%s: the text %.60q stands there more than once; take more of its line", c.File, c.Old)
		}
		all = append(all, spot{c, at})
	}
	slices.SortStableFunc(all, func(a, b spot) int { return cmp.Compare(a.at, b.at) })
	all = slices.CompactFunc(all, func(a, b spot) bool { return a.at == b.at && a.Old == b.Old && a.New == b.New })
	for i := 1; i < len(all); i++ {
		if before := all[i-1]; before.at+len(before.Old) > all[i].at {
			return nil, fmt.Errorf("%s: the canaries %.60q and %.60q change the same text", all[i].File, before.Old, all[i].Old)
		}
	}
	return all, nil
}
