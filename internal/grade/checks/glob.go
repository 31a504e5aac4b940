package checks

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// glob makes a pattern of a path: * and ? stay within one name, ** stands for
// any number of directories, [a-z] and [!a-z] for one character. A pattern of a
// directory stands for all below it, and dir/** for the directory as well: who
// removes it has changed what is in it.
func glob(pattern string) (*regexp.Regexp, error) {
	var b strings.Builder
	if dir, ok := strings.CutSuffix(pattern, "/**"); ok && dir != "" {
		pattern = dir
	}
	b.WriteString("^")
	for i := 0; i < len(pattern); {
		rest := pattern[i:]
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "**") && i > 0 && pattern[i-1] != '/':
			return nil, fmt.Errorf("%q: ** stands alone between slashes", pattern)
		case strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:[^/]*/)*")
			i += 3
		case rest == "**":
			b.WriteString(".*")
			i += 2
		case strings.HasPrefix(rest, "**"):
			return nil, fmt.Errorf("%q: ** stands alone between slashes", pattern)
		case c == '*':
			b.WriteString("[^/]*")
			i++
		case c == '?':
			b.WriteString("[^/]")
			i++
		case c == '[':
			end := strings.IndexByte(rest[1:], ']')
			if end < 1 {
				return nil, fmt.Errorf("%q: [ without ]", pattern)
			}
			set := rest[1 : 1+end]
			if set[0] == '!' {
				set = "^" + set[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(strings.ReplaceAll(set, `\`, `\\`), "[", `\[`) + "]")
			i += end + 2
		default:
			n := strings.IndexAny(rest[1:], "*?[")
			if n < 0 {
				n = len(rest) - 1
			}
			b.WriteString(regexp.QuoteMeta(rest[:n+1]))
			i += n + 1
		}
	}
	b.WriteString("(?:/.*)?$")
	re, err := regexp.Compile("(?s)" + b.String())
	if err != nil {
		return nil, fmt.Errorf("%q is no pattern of paths: %w", pattern, err)
	}
	return re, nil
}

// Matches reports whether an absolute path is what a pattern names; a relative
// pattern is one below workdir. A wrong pattern matches nothing.
func Matches(pattern, workdir, name string) bool {
	if !path.IsAbs(pattern) {
		below, ok := strings.CutPrefix(path.Clean(name), strings.TrimSuffix(path.Clean(workdir), "/")+"/")
		if !ok {
			return false
		}
		name = below
	}
	re, err := glob(pattern)
	return err == nil && re.MatchString(name)
}
