package checks

import "strings"

// scriptMatch matches a text against a regular expression: with perl or python,
// which know what RE2 knows; with grep, line by line, where neither is there.
const scriptMatch = `
# matched FILE RE reports whether the whole text matches.
matched() {
	if command -v perl >/dev/null 2>&1; then
		RE=$2 perl -0777 -e '$_ = <STDIN>; $_ = "" unless defined; $re = $ENV{RE}; exit !(/$re/)' <"$1"
	elif command -v python3 >/dev/null 2>&1; then
		python3 -c 'import re, sys; sys.exit(not re.search(sys.argv[2].replace("\\z", "\\Z"), open(sys.argv[1], encoding="utf-8", errors="replace").read()))' "$1" "$2"
	else
		grep -E -q -e "$2" "$1"
	fi
}
# holds FILE TEXT reports whether the text stands in the file.
holds() { TEXT=$2 awk 'BEGIN { RS = "\001" } { if (index($0, ENVIRON["TEXT"])) f = 1 } END { exit !f }' "$1"; }
digest() { if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -c1-64; }
# alive RE reports whether a process other than this script's matches.
alive() {
	for p in /proc/[0-9]*; do
		case ${p#/proc/} in $$) continue ;; esac
		{ cat "$p/comm"; tr '\0\n' '  ' <"$p/cmdline"; echo; } 2>/dev/null
	done | sed 's/^ *//;s/ *$//;/^$/d' >"$tmp/processes"
	if command -v perl >/dev/null 2>&1; then
		RE=$1 perl -ne 'chomp; $re = $ENV{RE}; $f = 1 if /$re/; END { exit !$f }' <"$tmp/processes"
	elif command -v python3 >/dev/null 2>&1; then
		python3 -c 'import re, sys; sys.exit(not any(re.search(sys.argv[2].replace("\\z", "\\Z"), l.rstrip("\n")) for l in open(sys.argv[1], errors="replace")))' "$tmp/processes" "$1"
	else
		grep -E -q -e "$1" "$tmp/processes"
	fi
}
`

// states asserts of the end state.
func (s *scripter) states(all []State) {
	if len(all) == 0 {
		return
	}
	s.b.WriteString(scriptMatch)
	for _, a := range all {
		s.put("\n# %s:%s\nright=0\n", StateName, a.Name)
		switch {
		case a.NoProcess != "":
			s.put("alive %s && right=1\n", quote(endText(a.NoProcess)))
		case a.Run != "":
			exit := 0
			if a.Exit != nil {
				exit = *a.Exit
			}
			s.put("(cd \"$work\" && start '' %d /bin/sh -c %s) </dev/null >\"$tmp/raw\" 2>/dev/null\n[ $? = %d ] || right=1\nprintf %%s \"$(cat \"$tmp/raw\")\" >\"$tmp/text\"\n", limit(a.TimeoutSec), quote(a.Run), exit)
			if a.Equals != nil {
				trimmed := strings.TrimRight(*a.Equals, "\n")
				a.Equals = &trimmed
			}
			s.content(a, `"$tmp/text"`)
		default:
			s.path(a)
		}
		s.put("check %s $right\n", quote(Global(StateName, a.Name)))
	}
}

func (s *scripter) path(a State) {
	at := quote(a.Path)
	if !strings.HasPrefix(a.Path, "/") {
		at = `"$work"/` + at
	}
	if a.Absent {
		s.put("if [ -e %s ] || [ -L %s ]; then right=1; fi\n", at, at)
		return
	}
	s.put("if [ ! -e %s ] && [ ! -L %s ]; then right=1; fi\n", at, at)
	switch a.Type {
	case "file":
		s.put("if [ ! -f %s ] || [ -L %s ]; then right=1; fi\n", at, at)
	case "dir":
		s.put("if [ ! -d %s ] || [ -L %s ]; then right=1; fi\n", at, at)
	case "link":
		s.put("[ -L %s ] || right=1\n", at)
	}
	if a.Mode != "" {
		s.put("[ \"$(stat -c %%a %s)\" = %s ] || right=1\n", at, quote(firstOf(strings.TrimLeft(a.Mode, "0"), "0")))
	}
	if a.UID != nil {
		s.put("[ \"$(stat -c %%u %s)\" = %d ] || right=1\n", at, *a.UID)
	}
	if a.GID != nil {
		s.put("[ \"$(stat -c %%g %s)\" = %d ] || right=1\n", at, *a.GID)
	}
	if a.Target != "" {
		s.put("[ \"$(readlink %s)\" = %s ] || right=1\n", at, quote(a.Target))
	}
	if a.SHA256 != "" {
		s.put("[ \"$(digest %s)\" = %s ] || right=1\n", at, a.SHA256)
	}
	if a.Equals != nil || a.Contains != "" || a.Matches != "" {
		s.put("if [ ! -f %s ] || [ -L %s ]; then right=1; fi\n", at, at)
		s.content(a, at)
	}
}

// content asserts of a file's text.
func (s *scripter) content(a State, at string) {
	if a.Equals != nil {
		s.file(`"$tmp/want"`, *a.Equals)
		s.put("cmp -s \"$tmp/want\" %s || right=1\n", at)
	}
	if a.Contains != "" {
		s.put("holds %s %s 2>/dev/null || right=1\n", at, quote(a.Contains))
	}
	if a.Matches != "" {
		s.put("matched %s %s 2>/dev/null || right=1\n", at, quote(endText(a.Matches)))
	}
}

// endText writes the end of a text as perl has it: RE2's $ is the very end, and
// perl's stands before a last line break too.
func endText(re string) string {
	if strings.Contains(re, "(?") { // flags may give it another meaning
		return re
	}
	var b strings.Builder
	set := false
	for i := 0; i < len(re); i++ {
		switch c := re[i]; {
		case c == '\\' && i+1 < len(re):
			b.WriteString(re[i : i+2])
			i++
		case c == '[' && !set:
			set = true
			b.WriteByte(c)
			if i+1 < len(re) && re[i+1] == ']' {
				b.WriteByte(']')
				i++
			}
		case c == ']':
			set = false
			b.WriteByte(c)
		case c == '$' && !set:
			b.WriteString(`\z`)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
