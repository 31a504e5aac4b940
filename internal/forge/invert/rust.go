package invert

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// rust are faults of Cargo's manifests, lock files, vendored sources and
// toolchains. Those of its configuration are in rustconfig.go.
func rust() []Operator {
	op := func(number int, name string, f Family, realism int, hint string) Operator {
		return Operator{Name: "cargo-" + name, Number: number, Ecosystem: Rust, Family: f, Realism: realism, Hint: hint}
	}
	manifest, lock := "what the manifest says", "what the lock file says"
	pinned := op(43, "toolchain-pinned", Config, 5, "which toolchain is asked for")
	pinned.Masked = "only rustup looks at it"
	return slices.Concat([]Operator{
		rewritten(op(42, "lock-drift", Dependency, 5, lock), cargoLocks, cargoLockDrift),
		rewritten(op(0, "lock-version", Dependency, 5, lock), cargoLocks, cargoLockVersion),
		rewritten(op(0, "lock-checksum", Dependency, 4, lock), cargoLocks, cargoLockChecksum),
		chosen(pinned, cargoToolchain),
		rewritten(op(44, "default-feature", Config, 4, manifest), cargoTomls, cargoDefaultFeature),
		rewritten(op(45, "vendor-checksum", Dependency, 3, "how vendored sources are verified"), cargoChecksums, cargoChecksum),
		rewritten(op(0, "rust-version", Config, 5, manifest), cargoTomls, cargoRustVersion),
		rewritten(op(0, "edition", Config, 4, manifest), cargoTomls, cargoEdition),
		rewritten(op(0, "dependency-missing", Dependency, 5, manifest), cargoTomls, cargoNeedMissing),
		rewritten(op(0, "dependency-version", Dependency, 5, manifest), cargoTomls, cargoNeedVersion),
		rewritten(op(0, "dependency-feature", Dependency, 5, manifest), cargoTomls, cargoNeedFeature),
		rewritten(op(0, "dependency-path", Dependency, 4, manifest), cargoTomls, cargoNeedPath),
		rewritten(op(0, "patch-missing", Dependency, 5, manifest), cargoTomls, cargoPatch),
		rewritten(op(0, "member-missing", Config, 5, "which packages the workspace has"), cargoTomls, cargoMember),
		chosen(op(0, "workspace-stray", Config, 4, "which workspace the package belongs to"), cargoWorkspace),
		chosen(op(0, "module-case", FileState, 4, "which files the modules are in"), cargoModuleCase),
		rewritten(op(0, "checks-off", Config, 3, manifest), cargoTomls, cargoChecksOff),
	}, rustConfig())
}

// cargoTomls are the manifests of the package and its workspace.
func cargoTomls(g *Ground) []string {
	all := slices.DeleteFunc(g.Sources("/Cargo.toml"), func(p string) bool { return strings.Contains(p, "/tests/") })
	if near := g.near("Cargo.toml"); near != "" && !slices.Contains(all, near) && g.Ours(near) {
		all = append(all, near)
	}
	return all
}

func cargoLocks(g *Ground) []string {
	if p := g.near("Cargo.lock"); p != "" {
		return []string{p}
	}
	return nil
}

// cargoSection finds a table of a manifest: from the end of its header to the
// next header.
func cargoSection(text, name string) (from, to int, ok bool) {
	head := regexp.MustCompile(`(?m)^\[` + name + `\][ \t]*(#.*)?$`).FindStringIndex(text)
	if head == nil {
		return 0, 0, false
	}
	from, to = head[1], len(text)
	if next := regexp.MustCompile(`(?m)^\[`).FindStringIndex(text[from:]); next != nil {
		to = from + next[0]
	}
	return from, to, true
}

// cargoNeed is one dependency of a manifest, on one line.
type cargoNeed struct {
	name, line string
	at         int // where the line begins
}

func cargoNeeds(text string) []cargoNeed {
	var all []cargoNeed
	for _, section := range []string{"dependencies", "dev-dependencies", `workspace\.dependencies`} {
		from, to, ok := cargoSection(text, section)
		if !ok {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^([\w-]+)\s*=\s*(".*|\{.*\}.*)$`).FindAllStringSubmatchIndex(text[from:to], -1) {
			all = append(all, cargoNeed{text[from+m[2] : from+m[3]], text[from+m[0] : from+m[1]], from + m[0]})
		}
	}
	return all
}

func (n cargoNeed) replaced(text, line string) string {
	return text[:n.at] + line + text[n.at+len(n.line):]
}

func cargoNeedMissing(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, n := range cargoNeeds(text) {
		all = append(all, rewrite{what: n.name, text: strings.Replace(n.replaced(text, "\x00"), "\x00\n", "", 1)})
	}
	return all
}

func cargoNeedVersion(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	version := regexp.MustCompile(`(=\s*|version\s*=\s*)"([^\d"]*)(\d+)([^"]*)"`)
	for _, n := range cargoNeeds(text) {
		m := version.FindStringSubmatch(n.line)
		if m == nil || strings.Contains(n.line, "path") {
			continue
		}
		major := 0
		_, _ = fmt.Sscan(m[3], &major) // digits, by the expression
		line := strings.Replace(n.line, m[0], fmt.Sprintf(`%s"%s%d.0"`, m[1], m[2], major+3), 1)
		all = append(all, rewrite{what: n.name, text: n.replaced(text, line)})
	}
	return all
}

func cargoNeedFeature(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	features := regexp.MustCompile(`,?\s*features\s*=\s*\[[^\]]*\]`)
	for _, n := range cargoNeeds(text) {
		all = append(all, rewrite{what: n.name, text: n.replaced(text, features.ReplaceAllString(n.line, ""))})
		if bare := regexp.MustCompile(`^([\w-]+)\s*=\s*("[^"]*")`).FindStringSubmatch(n.line); bare != nil {
			all = append(all, rewrite{what: n.name + " without defaults",
				text: n.replaced(text, bare[1]+" = { version = "+bare[2]+", default-features = false }")})
		}
	}
	return all
}

func cargoNeedPath(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	where := regexp.MustCompile(`path\s*=\s*"([^"]+)"`)
	for _, n := range cargoNeeds(text) {
		if m := where.FindStringSubmatch(n.line); m != nil {
			all = append(all, rewrite{what: n.name, text: n.replaced(text, strings.Replace(n.line, m[0], `path = "../`+path.Join("crates", path.Base(m[1]))+`"`, 1))})
		}
	}
	return all
}

func cargoLockDrift(g *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range regexp.MustCompile(`(?m)^name = "([^"]+)"\nversion = "([^"]+)"`).FindAllStringSubmatch(text, -1) {
		all = append(all, rewrite{what: m[1], text: strings.Replace(text, m[0], `name = "`+m[1]+"\"\nversion = \""+bump(m[2])+`"`, 1)})
	}
	return all
}

func cargoLockVersion(_ *Ground, _, text string) []rewrite {
	line := regexp.MustCompile(`(?m)^version = \d+$`)
	if !line.MatchString(text) {
		return nil
	}
	return []rewrite{{what: "5", text: line.ReplaceAllString(text, "version = 5")}, {what: "4", text: line.ReplaceAllString(text, "version = 4")}}
}

func cargoLockChecksum(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range regexp.MustCompile(`(?m)^name = "([^"]+)"\n(?:.*\n){1,2}checksum = "([0-9a-f]{64})"`).FindAllStringSubmatch(text, -1) {
		all = append(all, rewrite{what: m[1], text: strings.Replace(text, m[2], otherHex(m[2]), 1)})
	}
	return all
}

// otherHex is a digest that differs in some digits.
func otherHex(sum string) string {
	b := []byte(sum)
	for i := 5; i < len(b); i += 19 {
		b[i] = "1234567890bcdefa"[strings.IndexByte("0123456789abcdef", b[i])&15]
	}
	return string(b)
}

// cargoToolchain pins a channel that nobody installed. Only rustup looks at it.
func cargoToolchain(g *Ground) []choice {
	real := g.Real(g.Which("cargo"))
	if g.near("rust-toolchain.toml", "rust-toolchain") != "" || g.Which("rustup") == "" || real == "" {
		return nil
	}
	at := path.Join(g.Dir(), "rust-toolchain.toml")
	return slices.Concat(
		g.added(at, "1.62.0", "[toolchain]\nchannel = \"1.62.0\"\ncomponents = [\"rustfmt\", \"clippy\"]\n"),
		g.added(path.Join(g.Dir(), "rust-toolchain"), "nightly-2023-04-02", "nightly-2023-04-02\n"))
}

func cargoDefaultFeature(_ *Ground, _, text string) []rewrite {
	line := regexp.MustCompile(`(?m)^default\s*=\s*\[([^\]]*)\]`)
	m := line.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	var all []rewrite
	names := regexp.MustCompile(`"[^"]+"`).FindAllString(m[1], -1)
	for _, n := range names {
		rest := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == n })
		all = append(all, rewrite{what: strings.Trim(n, `"`), text: strings.Replace(text, m[0], "default = ["+strings.Join(rest, ", ")+"]", 1)})
	}
	return all
}

// cargoPackage changes a key of [package], or adds it.
func cargoPackage(text, key, value string) string {
	from, to, ok := cargoSection(text, "package")
	if !ok {
		return text
	}
	line := regexp.MustCompile(`(?m)^` + key + `\s*=.*$`)
	if at := line.FindStringIndex(text[from:to]); at != nil {
		return text[:from+at[0]] + key + " = " + value + text[from+at[1]:]
	}
	return text[:from] + "\n" + key + " = " + value + text[from:]
}

func cargoRustVersion(_ *Ground, _, text string) []rewrite {
	return []rewrite{{what: "1.99", text: cargoPackage(text, "rust-version", `"1.99"`)}}
}

func cargoEdition(_ *Ground, _, text string) []rewrite {
	all := []rewrite{{what: "2027", text: cargoPackage(text, "edition", `"2027"`)}}
	if regexp.MustCompile(`(?m)^edition\s*=\s*"20(18|21|24)"`).MatchString(text) {
		all = append(all, rewrite{what: "2015", text: cargoPackage(text, "edition", `"2015"`)})
	}
	return all
}

// cargoVendor is the directory of vendored sources that Cargo is told to use.
func cargoVendor(g *Ground) string {
	config, _ := g.Text(g.near(".cargo/config.toml", ".cargo/config"))
	if m := regexp.MustCompile(`(?m)^directory\s*=\s*"([^"]+)"`).FindStringSubmatch(config); m != nil {
		return path.Join(path.Dir(path.Dir(g.near(".cargo/config.toml", ".cargo/config"))), m[1])
	}
	return ""
}

func cargoChecksums(g *Ground) []string {
	var all []string
	if dir := cargoVendor(g); dir != "" {
		for _, e := range g.List(dir) {
			all = append(all, "/"+e.Path+"/.cargo-checksum.json")
		}
	}
	return all
}

func cargoChecksum(_ *Ground, p, text string) []rewrite {
	m := regexp.MustCompile(`"package":\s*"([0-9a-f]{64})"`).FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return []rewrite{{what: path.Base(path.Dir(p)), text: strings.Replace(text, m[1], otherHex(m[1]), 1)}}
}

func cargoPatch(_ *Ground, _, text string) []rewrite {
	if strings.Contains(text, "[patch.crates-io]") {
		return nil
	}
	var all []rewrite
	for _, n := range cargoNeeds(text) {
		if !strings.Contains(n.line, "path") && !strings.Contains(n.line, "workspace") {
			all = append(all, rewrite{what: n.name, text: strings.TrimRight(text, "\n") + "\n\n[patch.crates-io]\n" + n.name + " = { path = \"../" + n.name + "\" }\n"})
		}
	}
	return all
}

func cargoMember(_ *Ground, _, text string) []rewrite {
	m := regexp.MustCompile(`(?m)^members\s*=\s*\[`).FindString(text)
	if m == "" {
		return nil
	}
	return []rewrite{{what: "crates/tools", text: strings.Replace(text, m, m+"\n    \"crates/tools\",", 1)}}
}

func cargoWorkspace(g *Ground) []choice {
	near := g.near("Cargo.toml")
	if text, _ := g.Text(near); near == "" || strings.Contains(text, "[workspace") {
		return nil
	}
	dir := path.Dir(near)
	return g.added(path.Join(path.Dir(dir), "Cargo.toml"), "parent", "[workspace]\nmembers = [\"services/api\"]\n")
}

func cargoModuleCase(g *Ground) []choice {
	var all []choice
	for _, p := range g.Sources(".rs") {
		n := path.Base(p)
		if n == "lib.rs" || n == "main.rs" || n == "mod.rs" || n == "build.rs" || !strings.Contains(p, "/src/") || strings.Contains(p, "/bin/") {
			continue
		}
		all = append(all, g.moved(p, path.Join(path.Dir(p), strings.ToUpper(n[:1])+n[1:]))...)
	}
	return all
}

func cargoChecksOff(_ *Ground, _, text string) []rewrite {
	if strings.Contains(text, "[profile.dev]") || strings.Contains(text, "[profile.test]") || !strings.Contains(text, "[package]") {
		return nil
	}
	return []rewrite{{what: "test profile", text: strings.TrimRight(text, "\n") + "\n\n[profile.test]\ndebug-assertions = false\noverflow-checks = false\n"}}
}
