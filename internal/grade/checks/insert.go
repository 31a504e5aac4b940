package checks

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

var (
	commandHead = regexp.MustCompile(`^\s*\[\[\s*commands\s*\]\]`)
	commandPart = regexp.MustCompile(`^\s*\[\[?\s*commands\s*\.`)
	anyHead     = regexp.MustCompile(`^\s*\[\[?\s*[A-Za-z0-9_."'-]+\s*\]`)
)

// WithCanaries writes canaries, by the command's name, into the text of a plan
// that has been read, at the end of each command. Comments stay. Those that the
// command has already are left out. tests is what [Decode] takes.
func WithCanaries(text []byte, add map[string][]Canary, tests fs.FS) ([]byte, error) {
	p, err := Decode(text, tests)
	if err != nil {
		return nil, err
	}
	want := *p
	want.Commands = slices.Clone(p.Commands)
	blocks := make([][]byte, len(p.Commands))
	for i, c := range p.Commands {
		for _, k := range add[c.Name] {
			if slices.ContainsFunc(c.Canaries, func(o Canary) bool { return o.File == k.File && o.Old == k.Old && o.New == k.New }) {
				continue
			}
			b, err := toml.Marshal(k)
			if err != nil {
				return nil, fmt.Errorf("write canary: %w", err)
			}
			blocks[i] = append(blocks[i], "\n[[commands.canaries]]\n"...)
			blocks[i] = append(blocks[i], b...)
			want.Commands[i].Canaries = append(slices.Clone(want.Commands[i].Canaries), k)
		}
	}
	out := insert(text, blocks)
	if got, err := Decode(out, tests); err == nil && sameCanaries(got, &want) {
		return out, nil
	}
	// The commands are not written as tables of their own.
	out, err = want.Encode()
	if err != nil {
		return nil, err
	}
	_, err = Decode(out, tests)
	return out, err
}

// insert puts a block behind each command's last line.
func insert(text []byte, blocks [][]byte) []byte {
	var out, held bytes.Buffer // held: empty lines and comments, which belong to what follows
	command := -1
	end := func() {
		if command >= 0 && command < len(blocks) {
			if n := out.Len(); n > 0 && out.Bytes()[n-1] != '\n' {
				out.WriteByte('\n')
			}
			out.Write(blocks[command])
			blocks[command] = nil
		}
	}
	for line := range bytes.Lines(text) {
		bare := bytes.TrimSpace(line)
		switch {
		case commandHead.Match(line):
			end()
			command++
		case anyHead.Match(line) && !commandPart.Match(line):
			end()
		case len(bare) == 0 || bare[0] == '#':
			held.Write(line)
			continue
		}
		held.WriteTo(&out)
		out.Write(line)
	}
	end()
	held.WriteTo(&out)
	return out.Bytes()
}

func sameCanaries(a, b *Plan) bool {
	return slices.EqualFunc(a.Commands, b.Commands, func(a, b Command) bool {
		return a.Name == b.Name && slices.EqualFunc(a.Canaries, b.Canaries, func(a, b Canary) bool {
			return a.File == b.File && a.Old == b.Old && a.New == b.New && slices.Equal(a.Breaks, b.Breaks)
		})
	})
}
