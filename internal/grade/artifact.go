package grade

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/task"
)

// manifestFile records what was collected, beside what was collected.
const manifestFile = "manifest.json"

// mainService is the only service of a sandbox for now.
const mainService = "main"

// manifestEntry is one line of artifacts/manifest.json.
// Source: harbor/models/trial/artifact_manifest.py.
type manifestEntry struct {
	Source      string   `json:"source"`
	Destination string   `json:"destination"`
	Type        string   `json:"type"`   // "file" or "directory"
	Status      string   `json:"status"` // "ok", "failed", "empty" or "skipped"
	Service     *string  `json:"service"`
	Exclude     []string `json:"exclude"`
}

// artifacts are a step's entries, the conventional /logs/artifacts first
// unless one of them is that directory itself.
func artifacts(key task.Key) []task.Artifact {
	all := slices.Clone(key.Artifacts)
	if !slices.ContainsFunc(all, isConvention) {
		all = slices.Insert(all, 0, task.Artifact{Source: "/" + artifactsDir})
	}
	return all
}

func isConvention(a task.Artifact) bool {
	return strings.TrimRight(a.Source, "/") == "/"+artifactsDir && serviceOf(a) == mainService
}

func serviceOf(a task.Artifact) string {
	if a.Service == "" {
		return mainService
	}
	return a.Service
}

// hostName is where an artifact lies below artifacts/: its destination, else
// its source's path. ".." never climbs.
func hostName(a task.Artifact) string {
	p := a.Destination
	if p == "" {
		p = a.Source
	}
	var parts []string
	for s := range strings.SplitSeq(p, "/") {
		if s != "" && s != "." && s != ".." {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return "."
	}
	return path.Join(parts...)
}

// covered reports whether an entry collected before already holds b at the
// place where b belongs.
func covered(prior, b task.Artifact) bool {
	if serviceOf(prior) != serviceOf(b) {
		return false
	}
	from, to := path.Clean(prior.Source), path.Clean(b.Source)
	rest, below := strings.CutPrefix(to, strings.TrimSuffix(from, "/")+"/")
	switch {
	case from == to:
		return hostName(prior) == hostName(b) && slices.Equal(prior.Exclude, b.Exclude)
	case !below:
		return false
	}
	return len(prior.Exclude) == 0 && hostName(b) == path.Join(hostName(prior), rest)
}

// claims keeps the first artifact of those that land on one host path, or on
// one inside the other; later ones are skipped.
type claims []task.Artifact

func (c claims) conflict(a task.Artifact) bool {
	at := hostName(a)
	return slices.ContainsFunc(c, func(prior task.Artifact) bool {
		if path.Clean(prior.Source) == path.Clean(a.Source) && covered(prior, a) {
			return false
		}
		p := hostName(prior)
		return within(at, p) || within(p, at)
	})
}

// tarGlobs matches names as GNU tar's --exclude does: a pattern may match from
// the beginning or after any slash, "*" matches slashes, and what lies below a
// match is excluded too. Names are relative, without "./"; unlike there, a
// pattern such as ".*" does not match the tree's own ".", and with it all.
func tarGlobs(patterns []string) func(name string) bool {
	var all []*regexp.Regexp
	for _, p := range patterns {
		p = strings.TrimPrefix(p, "./")
		re, err := regexp.Compile(`(?s)(?:^|/)(?:` + globExpr(p) + `)(?:/|\z)`)
		if err != nil {
			re = regexp.MustCompile(`(?:^|/)` + regexp.QuoteMeta(p) + `(?:/|\z)`) // a broken class stands for itself
		}
		all = append(all, re)
	}
	return func(name string) bool {
		return slices.ContainsFunc(all, func(re *regexp.Regexp) bool { return re.MatchString(name) })
	}
}

func globExpr(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		case '[':
			n := classLen(glob[i:])
			if n == 0 {
				b.WriteString(`\[`)
				continue
			}
			class := glob[i+1 : i+n-1]
			not := ""
			if class[0] == '!' || class[0] == '^' {
				not, class = "^", class[1:]
			}
			b.WriteString("[" + not + strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "^", `\^`).Replace(class) + "]")
			i += n - 1
		case '\\':
			if i+1 < len(glob) {
				i++
				b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
				continue
			}
			b.WriteString(`\\`)
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	return b.String()
}

// classLen is the length of the bracket expression at the start of s, 0 if it
// is not closed. A "]" right after the opening is a member.
func classLen(s string) int {
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		i++
	}
	if i < len(s) && s[i] == ']' {
		i++
	}
	for ; i < len(s); i++ {
		if s[i] == ']' {
			return i + 1
		}
	}
	return 0
}
