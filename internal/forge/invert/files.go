package invert

import (
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"assay/internal/forge"
	"assay/internal/image"
)

// files lists the faults of files of any kind: rows 62 to 78 of the catalogue,
// and what else editors, merges and copies do to them.
func files() []Operator {
	op := func(number int, name string, f Family, realism int, hint string) Operator {
		return Operator{Name: name, Number: number, Ecosystem: Any, Family: f, Realism: realism, Hint: hint}
	}
	bytes := "whether the bytes of the project's files are what they look like"
	names := "whether everything has the name by which it is asked for"
	rights := "who may read and run what"
	masked := func(o Operator, why string) Operator { o.Masked = why; return o }
	return []Operator{
		rewritten(op(62, "config-value", Config, 5, "the values of the project's settings"), settings, driftValues),
		rewritten(op(63, "config-key", Config, 5, "the names of the project's settings"), settings, driftKeys),
		masked(rewritten(op(64, "file-bom", FileState, 4, bytes), parsed, addBOM), "many readers skip the mark"),
		rewritten(op(65, "file-truncated", FileState, 3, "whether every file is complete"), parsed, truncate),
		rewritten(op(66, "script-crlf", FileState, 5, bytes), scripts, toCRLF),
		rewritten(op(67, "script-shebang", FileState, 4, "what runs when a script is called"), scripts, driftShebang),
		chosen(op(68, "exec-bit", FileState, 5, rights), loseExecBit),
		masked(chosen(op(69, "unreadable", FileState, 5, rights), unreadable), "before root, permissions mean nothing"),
		chosen(op(70, "link-dangling", FileState, 4, "where links lead"), danglingLinks),
		chosen(op(71, "link-loop", Exotic, 2, "where links lead"), loopLinks),
		chosen(op(72, "file-directory", FileState, 3, "what kind of thing stands under each name"), fileToDirectory),
		chosen(op(73, "name-case", FileState, 4, names), otherCase),
		rewritten(op(74, "text-encoding", FileState, 4, bytes), wideTexts, toLatin),
		rewritten(op(0, "text-utf16", FileState, 3, bytes), parsed, toUTF16),
		chosen(op(75, "sqlite-header", Exotic, 3, "whether the project's data can be read"), sqliteHeader),
		chosen(op(76, "sqlite-schema", FileState, 5, "whether the project's data has the shape that its code expects"), sqliteSchema),
		rewritten(op(77, "dotenv-variable", Config, 5, "which variables the project is given"), dotenvs, driftKeys),
		rewritten(op(78, "generated-stale", FileState, 5, "whether generated files belong to what they are generated from"), generated, staleGenerated),
		rewritten(op(0, "conflict-markers", FileState, 4, "what the last merge left behind"), parsed, conflictMarkers),
		chosen(op(0, "suffix-drift", FileState, 4, names), otherSuffix),
		chosen(op(0, "file-displaced", FileState, 4, "whether every file is where it is looked for"), displaced),
		rewritten(op(0, "makefile-tabs", FileState, 5, "how the build's own rules are written"), makefiles, tabsToSpaces),
		rewritten(op(0, "smart-quotes", FileState, 3, bytes), parsed, smartQuotes),
	}
}

// settings are files that configure the project, of which its text speaks, or
// that tools read by their names.
func settings(g *Ground) []string {
	return g.pickFiles(func(p string) bool { return isSettings(p) && (g.mentioned(path.Base(p)) || isManifest(path.Base(p))) })
}

func isSettings(p string) bool {
	switch path.Ext(p) {
	case ".json", ".toml", ".yaml", ".yml", ".ini", ".cfg", ".conf", ".properties", ".env":
		return !strings.Contains(path.Base(p), "lock")
	}
	return strings.HasPrefix(path.Base(p), ".env")
}

// isManifest reports files that tools find by their names.
func isManifest(name string) bool {
	return slices.Contains([]string{"package.json", "pyproject.toml", "setup.cfg", "tox.ini", "Cargo.toml", "tsconfig.json",
		"application.properties", "application.yml", "jest.config.json", ".mocharc.json", ".babelrc"}, name)
}

// parsed are files that some program reads to the last byte: settings that are
// used, and sources.
func parsed(g *Ground) []string {
	return append(settings(g), g.pickFiles(func(p string) bool { return isSource(p) && !isSettings(p) })...)
}

func isSource(p string) bool {
	switch path.Ext(p) {
	case ".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".go", ".rs", ".java", ".c", ".h", ".cc", ".cpp", ".hpp", ".rb", ".sql", ".proto":
		return !strings.HasPrefix(path.Base(p), "test_")
	}
	return false
}

func (g *Ground) pickFiles(want func(string) bool) []string {
	var all []string
	for _, p := range g.Project() {
		if want(p) && g.isFile(p) {
			all = append(all, p)
		}
	}
	return all
}

// mentioned reports whether a source of the project, tests too, names a file.
func (g *Ground) mentioned(name string) bool { return strings.Contains(g.prose(), name) }

// readProse is the text of the project's sources, tests and build files, in
// part.
func (g *Ground) readProse() string {
	var b strings.Builder
	for _, p := range g.Below(g.Dir(), func(e image.Entry) bool { return e.Type == image.TypeFile && e.Size < 256<<10 }) {
		base := path.Base(p)
		if !isSource(p) && !strings.HasPrefix(base, "test_") && path.Ext(p) != ".sh" && !strings.HasPrefix(base, "Makefile") && base != "CMakeLists.txt" && base != "package.json" && base != "pyproject.toml" {
			continue
		}
		if t, ok := g.Text(p); ok && b.Len() < 8<<20 {
			b.WriteString(t)
		}
	}
	b.WriteString(g.Commands())
	return b.String()
}

var (
	assignment = regexp.MustCompile(`(?m)^(\s*["']?)([A-Za-z_][\w.-]{2,})(["']?\s*[:=]\s*)(.*)$`)
	number     = regexp.MustCompile(`^(["']?)(\d+)(\.\d+)?(.*)$`)
)

// driftValues changes one value to another of its type: a number by a factor
// of its unit, a switch, a word.
func driftValues(_ *Ground, p, text string) []rewrite {
	var all []rewrite
	for _, m := range assignment.FindAllStringSubmatchIndex(text, 400) {
		key, value := text[m[4]:m[5]], text[m[8]:m[9]]
		to := ""
		switch n := number.FindStringSubmatch(value); {
		case strings.HasPrefix(value, "true"):
			to = "false" + value[4:]
		case strings.HasPrefix(value, "false"):
			to = "true" + value[5:]
		case n != nil && !strings.Contains(strings.ToLower(key), "version") && n[3] == "":
			to = n[1] + n[2] + "000" + n[4]
			if strings.HasSuffix(n[2], "000") {
				to = n[1] + strings.TrimSuffix(n[2], "000") + n[4]
			}
		case isManifest(path.Base(p)) || len(value) < 3:
			continue
		case strings.HasPrefix(value, `"/`) || strings.HasPrefix(value, `"./`) || strings.HasPrefix(value, "/"):
			to = strings.Replace(value, "/", "/srv/", 1)
		case regexp.MustCompile(`^["']?[a-z]{3,}["']?,?$`).MatchString(value):
			to = strings.Replace(value, value[1:3], strings.ToUpper(value[1:3]), 1)
		}
		if to != "" {
			all = append(all, rewrite{what: key, text: text[:m[8]] + to + text[m[9]:], rebuilt: true})
		}
	}
	return all
}

// driftKeys gives one key the spelling of another habit.
func driftKeys(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range assignment.FindAllStringSubmatchIndex(text, 200) {
		key := text[m[4]:m[5]]
		to := key + "s"
		switch {
		case strings.Contains(key, "_"):
			to = strings.ReplaceAll(key, "_", "-")
			if key == strings.ToUpper(key) {
				to = "APP_" + key
			}
		case strings.Contains(key, "-"):
			to = strings.ReplaceAll(key, "-", "_")
		case strings.HasSuffix(key, "s"):
			to = strings.TrimSuffix(key, "s")
		}
		all = append(all, rewrite{what: key, text: text[:m[4]] + to + text[m[5]:], rebuilt: true})
	}
	return all
}

func addBOM(_ *Ground, _, text string) []rewrite {
	return []rewrite{{text: "\ufeff" + text, rebuilt: true}}
}

// truncate cuts off no more than closing brackets: what is left says what is
// missing.
func truncate(_ *Ground, _, text string) []rewrite {
	if cut := closers(text); cut != "" {
		return []rewrite{{text: strings.TrimRight(cut, "\n"), rebuilt: true}}
	}
	return nil
}

// scripts are files that are run by their first line, or by a shell.
func scripts(g *Ground) []string {
	out := g.pickFiles(func(p string) bool {
		t, ok := g.Text(p)
		return ok && (strings.HasPrefix(t, "#!") || path.Ext(p) == ".sh") && (g.mentioned(path.Base(p)) || strings.Contains(p, "/bin/"))
	})
	for _, p := range g.Profiles() { // the entry's own
		if path.Base(p) == "project.sh" {
			out = append(out, p)
		}
	}
	return out
}

func toCRLF(_ *Ground, _, text string) []rewrite {
	if strings.Contains(text, "\r\n") {
		return nil
	}
	return []rewrite{{text: strings.ReplaceAll(text, "\n", "\r\n"), rebuilt: true}}
}

func driftShebang(_ *Ground, _, text string) []rewrite {
	first, rest, ok := strings.Cut(text, "\n")
	if !ok || !strings.HasPrefix(first, "#!") {
		return nil
	}
	to := map[bool]string{true: "#!/usr/local/bin/zsh", false: "#!/usr/bin/env -S " + path.Base(strings.Fields(first[2:] + " sh")[0]) + "2.7"}
	return []rewrite{{what: "shell", text: to[true] + "\n" + rest}, {what: "version", text: to[false] + "\n" + rest}}
}

// loseExecBit: of project scripts, and of programs that the suite runs.
func loseExecBit(g *Ground) []choice {
	var all []choice
	add := func(p string) {
		if e, ok := g.Entry(p); ok && e.Type == image.TypeFile && e.Mode&0o111 != 0 && g.Ours(p) {
			all = append(all, choice{Site{Path: p}, func(*rand.Rand) (forge.Delta, error) { return g.Chmod(p, e.Mode&^0o111), nil }})
		}
	}
	for _, p := range g.Project() {
		add(p)
	}
	for _, w := range strings.Fields(g.Commands()) {
		w = strings.Trim(w, `'"();&|`)
		if !regexp.MustCompile(`^[\w.+/-]{2,40}$`).MatchString(w) || slices.Contains([]string{"sh", "bash", "env", "cd", "set", "export"}, w) {
			continue
		}
		at := g.Which(w)
		if path.IsAbs(w) {
			at = w
		}
		if e, ok := g.Entry(g.Real(at)); at != "" && ok && e.Size < maxMoved { // its bytes come with its mode
			add(g.Real(at))
		}
	}
	return all
}

func unreadable(g *Ground) []choice {
	if g.Root() {
		return nil
	}
	var all []choice
	for _, p := range parsed(g) {
		all = append(all,
			choice{Site{Path: p, What: "mode"}, func(*rand.Rand) (forge.Delta, error) { return g.Chmod(p, 0), nil }},
			choice{Site{Path: p, What: "owner"}, func(*rand.Rand) (forge.Delta, error) {
				d := g.Chown(p, 0, 0)
				d[0].Mode = 0o600
				return d, nil
			}})
	}
	return all
}

func danglingLinks(g *Ground) []choice {
	var all []choice
	for _, p := range g.Project() {
		e, ok := g.Entry(p)
		if !ok {
			continue
		}
		switch {
		case e.Type == image.TypeSymlink:
			to := path.Join(path.Dir(e.Link), "releases", path.Base(e.Link))
			all = append(all, choice{Site{Path: p}, func(*rand.Rand) (forge.Delta, error) { return g.Link(p, to), nil }})
		case isSettings(p) && g.mentioned(path.Base(p)) && !isManifest(path.Base(p)), isSource(p):
			// What was a file is kept elsewhere, and the link to it misses.
			all = append(all, choice{Site{Path: p, What: "shared"}, func(*rand.Rand) (forge.Delta, error) {
				keep := path.Join(g.Dir(), "shared", path.Base(p))
				d, err := g.Copy(p, keep)
				return append(d, g.Link(p, "../"+path.Join("share", path.Base(p)))...), err
			}})
		}
	}
	return all
}

func loopLinks(g *Ground) []choice {
	var all []choice
	for _, p := range g.Project() {
		if e, ok := g.Entry(p); ok && e.Type == image.TypeSymlink {
			all = append(all, choice{Site{Path: p}, func(*rand.Rand) (forge.Delta, error) { return g.Link(p, path.Base(p)), nil }})
		}
	}
	for _, p := range settings(g) {
		if !isManifest(path.Base(p)) {
			all = append(all, choice{Site{Path: p, What: "kept"}, func(*rand.Rand) (forge.Delta, error) {
				d, err := g.Copy(p, p+".default")
				return append(d, g.Link(p, path.Base(p))...), err
			}})
		}
	}
	return all
}

// fileToDirectory: a file has become a directory that holds it.
func fileToDirectory(g *Ground) []choice {
	var all []choice
	for _, p := range parsed(g) {
		all = append(all, choice{Site{Path: p}, func(*rand.Rand) (forge.Delta, error) {
			e, _ := g.Entry(p)
			inner := g.as(p, path.Join(p, path.Base(p)), nil)
			return forge.Delta{{Path: p, Type: image.TypeDir, Mode: 0o755, UID: e.UID, GID: e.GID}, inner}, nil
		}})
	}
	return all
}

func otherCase(g *Ground) []choice {
	var all []choice
	for _, p := range parsed(g) {
		if base := path.Base(p); base != "" && base[0] >= 'a' && base[0] <= 'z' {
			all = append(all, g.moved(p, path.Join(path.Dir(p), strings.ToUpper(base[:1])+base[1:]))...)
		}
	}
	return all
}

func otherSuffix(g *Ground) []choice {
	swap := map[string]string{".yml": ".yaml", ".yaml": ".yml", ".json": ".json5", ".ini": ".cfg", ".cfg": ".ini", ".conf": ".cfg",
		".js": ".mjs", ".mjs": ".js", ".cjs": ".js", ".ts": ".mts", ".txt": ".text", ".h": ".hh", ".toml": ".tml"}
	var all []choice
	for _, p := range parsed(g) {
		if to := swap[path.Ext(p)]; to != "" {
			all = append(all, g.moved(p, strings.TrimSuffix(p, path.Ext(p))+to)...)
		}
	}
	return all
}

// displaced: a file was dragged into a directory beside it.
func displaced(g *Ground) []choice {
	var all []choice
	for _, p := range parsed(g) {
		dir := path.Dir(p)
		if isManifest(path.Base(p)) {
			continue
		}
		for _, e := range g.List(dir) {
			if to := "/" + e.Path; e.IsDir() && !strings.HasPrefix(path.Base(to), ".") && !slices.Contains(aside(), path.Base(to)) {
				all = append(all, g.moved(p, path.Join(to, path.Base(p)))...)
				break
			}
		}
	}
	return all
}

// wideTexts are files with letters beyond ASCII that ISO 8859-1 has too.
func wideTexts(g *Ground) []string {
	return g.pickFiles(func(p string) bool {
		if !isSource(p) && !g.mentioned(path.Base(p)) {
			return false
		}
		t, ok := g.Text(p)
		if !ok {
			return false
		}
		wide := false
		for _, r := range t {
			if r > 0xff {
				return false
			}
			wide = wide || r >= 0xa0
		}
		return wide
	})
}

func toLatin(_ *Ground, _, text string) []rewrite {
	b := make([]byte, 0, len(text))
	for _, r := range text {
		b = append(b, byte(r)) // wideTexts has looked
	}
	return []rewrite{{what: "iso-8859-1", text: string(b), rebuilt: true}}
}

func toUTF16(_ *Ground, _, text string) []rewrite {
	if len(text) > 60<<10 || !utf8.ValidString(text) {
		return nil
	}
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(text)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return []rewrite{{what: "utf-16", text: string(b), rebuilt: true}}
}
