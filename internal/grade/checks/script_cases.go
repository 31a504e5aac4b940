package checks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scriptCase is what a script can try of a case: a program's arguments, input
// and output. docs/check-plans.md has the whole form.
type scriptCase struct {
	ID      string            `json:"id"`
	Args    []string          `json:"args"`
	Stdin   string            `json:"stdin"`
	Files   map[string]string `json:"files"`
	Env     map[string]string `json:"env"`
	Compare string            `json:"compare"`
	AbsTol  *float64          `json:"abs_tol"`
	RelTol  *float64          `json:"rel_tol"`
	TimeSec float64           `json:"timeout_sec"`
	Want    struct {
		Stdout *string           `json:"stdout"`
		Stderr *string           `json:"stderr"`
		Exit   json.RawMessage   `json:"exit"`
		Files  map[string]string `json:"files"`
	} `json:"want"`
}

// caseSeconds is the limit of a case that names none.
const caseSeconds = 10

// scriptCompare compares two files by one mode: same MODE ABS REL WANT GOT.
const scriptCompare = `
# same MODE ABS REL WANT GOT compares two files.
same() {
	[ -f "$5" ] || return 1
	case $1 in
	exact) cmp -s "$4" "$5" ;;
	tokens) [ "$(tr -s ' \t\n\r\f\v' '[\n*]' <"$4" | sed '/^$/d')" = "$(tr -s ' \t\n\r\f\v' '[\n*]' <"$5" | sed '/^$/d')" ] ;;
	numbers) LC_ALL=C awk -v abs="$2" -v rel="$3" '
		function size(x) { return x < 0 ? -x : x }
		function number(w) { return w ~ /^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$/ }
		FILENAME == ARGV[1] { for (i = 1; i <= NF; i++) want[++n] = $i; next }
		{ for (i = 1; i <= NF; i++) {
			m++
			if ($i == want[m]) continue
			if (m > n || !number($i) || !number(want[m])) { bad = 1; exit }
			if (size($i - want[m]) > abs + rel * size(want[m])) { bad = 1; exit }
		} }
		END { exit (bad || n != m) }' "$4" "$5" ;;
	*) trimmed "$4" >"$tmp/a"; trimmed "$5" >"$tmp/b"; cmp -s "$tmp/a" "$tmp/b" ;;
	esac
}
trimmed() { sed 's/[[:space:]]*$//' "$1" | awk '/^$/ { e = e "\n"; next } { printf "%s%s\n", e, $0; e = "" }'; }
`

// cases tries a group: a program, with its expected output in the script.
func (s *scripter) cases(c Cases) {
	if c.Call != "" {
		s.calls(c)
		return
	}
	if !s.written["compare"] {
		s.written["compare"] = true
		s.b.WriteString(scriptCompare)
	}
	s.put("\n# %s\n", c.Name)
	for line := range bytes.Lines(c.data) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var one scriptCase
		if err := json.Unmarshal(line, &one); err != nil {
			s.faults = append(s.faults, fmt.Errorf("cases %q: a value that no script knows: %w", c.Name, err))
			s.put("doubt='cases that assay alone can try'\n")
			return
		}
		s.one(c, one)
	}
}

func (s *scripter) one(c Cases, k scriptCase) {
	mode := firstOf(k.Compare, c.Compare, "text")
	if !slices.Contains([]string{"text", "exact", "tokens", "numbers"}, mode) {
		s.faults = append(s.faults, fmt.Errorf("case %q: a script cannot compare by %q", Global(c.Name, k.ID), mode))
		s.put("doubt='cases are compared by assay alone'\n")
		return
	}
	if k.Want.Stdout == nil && k.Want.Stderr == nil && len(k.Want.Files)+len(k.Want.Exit) == 0 {
		s.faults = append(s.faults, fmt.Errorf("case %q wants nothing", Global(c.Name, k.ID)))
	}
	// Every case has a copy of the working directory.
	s.put("rm -rf \"$tmp/case\" && cp -R \"$work\" \"$tmp/case\"\n")
	for _, name := range sortedNames(k.Files) {
		s.put("mkdir -p \"$(dirname \"$tmp/case/\"%s)\"\n", quote(name))
		s.file(`"$tmp/case/"`+quote(name), k.Files[name])
	}
	s.file(`"$tmp/in"`, k.Stdin)
	s.put("(\n\tcd \"$tmp/case\" && cd %s || exit 127\n", quote(cmpDir(c.Dir)))
	for _, name := range sortedNames(k.Env) {
		if isVariable(name) {
			s.put("\texport %s=%s\n", name, quote(k.Env[name]))
		}
	}
	seconds := k.TimeSec
	if seconds == 0 {
		seconds = c.TimeSec
	}
	if seconds == 0 {
		seconds = caseSeconds
	}
	s.put("\tstart '' %d", limit(seconds))
	for _, a := range slices.Concat(c.Run, k.Args) {
		s.put(" %s", quote(a))
	}
	s.put("\n) <\"$tmp/in\" >\"$tmp/out\" 2>\"$tmp/err\"\nstatus=$?\nright=0\n")
	abs, rel := tolerance(k.AbsTol, c.AbsTol), tolerance(k.RelTol, c.RelTol)
	if mode == "numbers" && abs == 0 && rel == 0 {
		abs, rel = 1e-6, 1e-6
	}
	compare := func(want, got string) {
		s.file(`"$tmp/want"`, want)
		s.put("same %s %s %s \"$tmp/want\" %s || right=1\n", mode, number(abs), number(rel), got)
	}
	exit := "0"
	if len(k.Want.Exit) > 0 {
		exit = string(k.Want.Exit)
	}
	if exit != "null" {
		s.put("[ $status = %s ] || right=1\n", quote(exit))
	}
	if k.Want.Stdout != nil {
		compare(*k.Want.Stdout, `"$tmp/out"`)
	}
	if k.Want.Stderr != nil {
		compare(*k.Want.Stderr, `"$tmp/err"`)
	}
	for _, name := range sortedNames(k.Want.Files) {
		compare(k.Want.Files[name], `"$tmp/case/"`+quote(joinDir(c.Dir, name)))
	}
	s.put("check %s $right\n", quote(Global(c.Name, k.ID)))
}

// file writes any text to a file of the script, byte by byte.
func (s *scripter) file(to, text string) {
	if utf8.ValidString(text) && !strings.Contains(text, "\x00") {
		s.put("printf %%s %s >%s\n", quote(text), to)
		return
	}
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, `\%03o`, text[i])
	}
	s.put("printf %s >%s\n", quote(b.String()), to)
}

func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

func tolerance(own *float64, group float64) float64 {
	if own != nil {
		return *own
	}
	return group
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func sortedNames(m map[string]string) []string {
	var all []string
	for name := range m {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func joinDir(dir, name string) string {
	if dir == "" || dir == "." {
		return name
	}
	return dir + "/" + name
}
