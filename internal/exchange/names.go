package exchange

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"regexp"
	"strings"
)

// commandArm begins the name of an arm that is a command line of the user's.
const commandArm = "command:"

// Caps of names in other people's files, in bytes.
const (
	maxModelName = 150 // as model_name_or_path, which other tools make directories of
	maxProgram   = 40  // of a command's readable part
)

// ArmName is what an arm is called in files for others: the same for the same
// agent and model in every job, and another one for others. Of a prediction it
// is its own name, of the gold solution "gold". A command line gives its
// program's name, its options without values and plain words, and a digest of
// the whole: a line can be long and hold secrets.
func ArmName(agent, model string) string {
	if name, ok := strings.CutPrefix(agent, PredictionArm); ok {
		return name
	}
	if agent == "oracle" {
		return "gold"
	}
	name := agent
	if line, ok := strings.CutPrefix(agent, commandArm); ok {
		name = "command-" + program(line) + "-" + digest8(line)
	}
	if model != "" {
		name += "__" + strings.ReplaceAll(model, "/", "__")
	}
	return plainName(name)
}

var (
	unnamed   = regexp.MustCompile(`[^A-Za-z0-9._+-]+`)
	plainWord = regexp.MustCompile(`^-{0,2}[A-Za-z][A-Za-z._/-]*$`)
	assigned  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

// program is the readable part of a command line.
func program(line string) string {
	var words []string
	for _, w := range strings.Fields(line) {
		option, _, _ := strings.Cut(w, "=")
		switch {
		case len(words) == 0 && assigned.MatchString(w):
		case len(words) == 0:
			words = append(words, path.Base(w))
		case strings.HasPrefix(w, "-") && plainWord.MatchString(option):
			words = append(words, option)
		case plainWord.MatchString(w):
			words = append(words, w)
		}
	}
	name := strings.Trim(regexp.MustCompile(`-{2,}`).ReplaceAllString(unnamed.ReplaceAllString(strings.Join(words, "-"), "-"), "-"), "-.")
	if len(name) > maxProgram {
		name = strings.TrimRight(name[:maxProgram], "-.")
	}
	if name == "" {
		return "line"
	}
	return name
}

// plainName leaves a name as it is, unless it is too long for a file's, or holds
// what steers a terminal or ends a line.
func plainName(name string) string {
	if len(name) <= maxModelName && !strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0xfffd }) {
		return name
	}
	plain := strings.Trim(unnamed.ReplaceAllString(name, "-"), "-.")
	if plain == "" {
		plain = "arm"
	}
	return plain[:min(len(plain), maxModelName-9)] + "-" + digest8(name)
}

// fileName is a model's name as one of a file or directory, as SWE-bench spells
// it; one that could not be is made plain.
func fileName(model string) string {
	name := plainName(strings.ReplaceAll(model, "/", "__"))
	if strings.HasPrefix(name, ".") {
		name = "_" + name
	}
	return name
}

// digest8 tells texts apart that are spelled alike.
func digest8(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
