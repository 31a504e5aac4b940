package decide

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Rust has no parser here. What is needed of one is where the bodies of
// functions begin and end, and that takes strings, characters, lifetimes and
// comments to be told apart, nothing more. What is not understood is built
// alone, so that a mistake here costs time and no verdict.

// rustBlank is src with everything in comments, strings and characters made
// blank, byte by byte; an error says that it is not understood.
func rustBlank(src []byte) ([]byte, error) {
	out := bytes.Clone(src)
	blank := func(from, to int) {
		for i := from; i < to && i < len(out); i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; i < len(src); {
		switch {
		case bytes.HasPrefix(src[i:], []byte("//")):
			end := bytes.IndexByte(src[i:], '\n')
			if end < 0 {
				end = len(src) - i
			}
			blank(i, i+end)
			i += end
		case bytes.HasPrefix(src[i:], []byte("/*")):
			depth, k := 1, i+2
			for ; k < len(src) && depth > 0; k++ {
				if bytes.HasPrefix(src[k:], []byte("/*")) {
					depth++
					k++
				} else if bytes.HasPrefix(src[k:], []byte("*/")) {
					depth--
					k++
				}
			}
			if depth > 0 {
				return nil, errors.New("a comment without end")
			}
			blank(i, k)
			i = k
		case rustRaw.Match(src[i:min(len(src), i+40)]) && (i == 0 || !rustWord(src[i-1])):
			m := rustRaw.FindSubmatch(src[i:min(len(src), i+40)])
			end := bytes.Index(src[i+len(m[0]):], append([]byte{'"'}, m[1]...))
			if end < 0 {
				return nil, errors.New("a raw string without end")
			}
			end += i + len(m[0]) + 1 + len(m[1])
			blank(i, end)
			i = end
		case src[i] == '"':
			k := i + 1
			for ; k < len(src) && src[k] != '"'; k++ {
				if src[k] == '\\' {
					k++
				}
			}
			if k >= len(src) {
				return nil, errors.New("a string without end")
			}
			blank(i, k+1)
			i = k + 1
		case src[i] == '\'':
			if m := rustChar.Find(src[i:min(len(src), i+16)]); m != nil {
				blank(i, i+len(m))
				i += len(m)
			} else {
				i++ // a lifetime
			}
		default:
			i++
		}
	}
	return out, nil
}

var (
	rustRaw  = regexp.MustCompile(`^b?r(#*)"`)
	rustChar = regexp.MustCompile(`^'(\\(x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|.)|[^\\'\n])'`)
	rustFn   = regexp.MustCompile(`\bfn\s+[A-Za-z_]\w*`)
)

func rustWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// rustBodies are the outermost functions' bodies with their braces, those of
// macros, constants and tests left out.
func rustBodies(src []byte) (out []goBody, err error) {
	text, err := rustBlank(src)
	if err != nil {
		return nil, err
	}
	var skip [][2]int // macros and test modules
	for _, m := range rustSkip.FindAllIndex(text, -1) {
		open := bytes.IndexByte(text[m[1]:], '{')
		if open < 0 {
			continue
		}
		end, err := rustClose(text, m[1]+open)
		if err != nil {
			return nil, err
		}
		skip = append(skip, [2]int{m[0], end})
	}
	at := 0
	for _, m := range rustFn.FindAllIndex(text, -1) {
		if m[0] < at || slices.ContainsFunc(skip, func(s [2]int) bool { return m[0] > s[0] && m[0] < s[1] }) {
			continue
		}
		open := rustOpen(text, m[1])
		if open < 0 {
			continue // a declaration
		}
		end, err := rustClose(text, open)
		if err != nil {
			return nil, err
		}
		line := text[bytes.LastIndexByte(text[:m[0]], '\n')+1 : m[0]]
		at = end
		out = append(out, goBody{start: open, end: end, labels: bytes.Contains(line, []byte("const ")) || bytes.Contains(line, []byte("extern ")) || bytes.Contains(text[m[1]:open], []byte("impl "))})
	}
	return out, nil
}

var rustSkip = regexp.MustCompile(`macro_rules!|#\[cfg\(test\)\]`)

// rustOpen is where the body begins of a function whose name ends at from; -1:
// it has none.
func rustOpen(text []byte, from int) int {
	depth := 0
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ';':
			if depth == 0 {
				return -1
			}
		case '{':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// rustClose is just behind the brace that closes the one at open.
func rustClose(text []byte, open int) (int, error) {
	depth := 0
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
	}
	return 0, errors.New("a brace without end")
}

// rustVariantOf says how a change is another body of one function.
func rustVariantOf(old, files map[string][]byte) (v goVariant, err error) {
	if len(files) != 1 {
		return v, errors.New("several files")
	}
	for f, now := range files {
		was, ok := old[f]
		if !ok || path.Ext(f) != ".rs" || !strings.Contains("/"+f, "/src/") {
			return v, errors.New("no source of Rust")
		}
		v.file = f
		a, err := rustBodies(was)
		if err != nil {
			return v, err
		}
		b, err := rustBodies(now)
		if err != nil {
			return v, err
		}
		if len(a) != len(b) {
			return v, errors.New("other functions")
		}
		for i := range a {
			if bytes.Equal(was[a[i].start:a[i].end], now[b[i].start:b[i].end]) {
				continue
			}
			if v.body != nil {
				return v, errors.New("several functions")
			}
			if a[i].labels || !bytes.Equal(was[:a[i].start], now[:b[i].start]) || !bytes.Equal(was[a[i].end:], now[b[i].end:]) {
				return v, errors.New("outside of functions, or of one that is constant")
			}
			v.start, v.end, v.body = a[i].start, a[i].end, now[b[i].start:b[i].end]
		}
		if v.body == nil {
			return v, errors.New("outside of functions")
		}
	}
	return v, nil
}

// rustSchema writes each file with all of its variants, as goSchema does; the
// switch is a function at the end of every such file.
func rustSchema(old map[string][]byte, variants []goVariant) (files map[string][]byte, spans []goSpan) {
	files, spans = schema(old, variants, "if "+rustSwitchName+"() == %d ")
	for f := range files {
		files[f] = fmt.Appendf(files[f], `
#[allow(dead_code)]
fn %s() -> usize {
    static CHOSEN: ::std::sync::atomic::AtomicUsize = ::std::sync::atomic::AtomicUsize::new(usize::max_value());
    let mut n = CHOSEN.load(::std::sync::atomic::Ordering::Relaxed);
    if n == usize::max_value() {
        n = ::std::env::var(%q).ok().and_then(|s| s.parse().ok()).unwrap_or(0);
        CHOSEN.store(n, ::std::sync::atomic::Ordering::Relaxed);
    }
    n
}
`, rustSwitchName, switchVar)
	}
	return files, spans
}

const rustSwitchName = "assay_mutant"
