package invert

import (
	"encoding/json"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
	"assay/internal/image"
)

// node lists the faults of JavaScript's and TypeScript's runtime, packages and
// tools: rows 19 to 28 of the catalogue, and some beyond.
func node() []Operator {
	op := func(number int, name string, f Family, realism int, hint string) Operator {
		return Operator{Name: "node-" + name, Number: number, Ecosystem: Node, Family: f, Realism: realism, Hint: hint}
	}
	modules := "which packages lie where the runtime looks for them"
	manifest := "what the project's manifest says"
	unbuilt := op(25, "lock-drift", Dependency, 5, "whether what is locked is what is asked for")
	unbuilt.Masked = "only a suite that installs by the lock file meets it"
	return slices.Concat([]Operator{
		chosen(op(19, "module-missing", Dependency, 5, modules), nodeMissing),
		chosen(op(20, "module-nested", Dependency, 5, "which copy of a package is really loaded"), nodeNested),
		chosen(op(21, "module-entry", Dependency, 4, "what a package says its entry is"), nodeEntry),
		rewritten(op(22, "type-flip", Config, 5, manifest), nodeManifest, nodeType),
		chosen(op(24, "npmrc", Config, 5, "what the package manager reads before it runs anything"), nodeRC),
		rewritten(unbuilt, nodeLocks, nodeLockDrift),
		rewritten(op(26, "tsconfig", Config, 4, "how sources are compiled"), nodeTSConfigs, nodeTSConfig),
		chosen(op(27, "bin-link", Dependency, 4, "which programs the project's scripts call"), nodeBin),
		chosen(op(28, "addon-architecture", Exotic, 3, "whether compiled parts fit this machine"), nodeAddon),
		rewritten(op(0, "script-renamed", Config, 4, manifest), nodeManifest, nodeScripts),
		rewritten(op(0, "imports-map", Config, 3, manifest), nodeManifest, nodeImports),
		chosen(op(0, "module-truncated", FileState, 3, modules), nodeTruncated),
		chosen(op(0, "stray-config", Config, 4, "which configuration files the tools find"), nodeStray),
		chosen(op(0, "module-shadowed", Dependency, 3, "which copy of a package is really loaded"), nodeShadow),
		chosen(op(0, "link-dangling", FileState, 4, "whether linked packages lead somewhere"), nodeLinks),
	}, nodeVariables())
}

func (g *Ground) usesNode() bool {
	return g.Speaks("javascript") || g.Speaks("typescript") || g.Speaks("tsx")
}

// manifest is what a package.json says, as far as it matters here.
type manifest struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Type    string            `json:"type"`
	Main    string            `json:"main"`
	Scripts map[string]string `json:"scripts"`
	Imports map[string]any    `json:"imports"`
	Bin     any               `json:"bin"`
	Deps    map[string]string `json:"dependencies"`
	DevDeps map[string]string `json:"devDependencies"`
}

func (g *Ground) manifestAt(p string) (manifest, bool) {
	var m manifest
	t, ok := g.Text(p)
	if !ok || json.Unmarshal([]byte(t), &m) != nil {
		return m, false
	}
	return m, true
}

func nodeManifest(g *Ground) []string {
	if p := g.near("package.json"); p != "" && g.usesNode() {
		return []string{p}
	}
	return nil
}

func (g *Ground) modulesDir() string {
	if !g.usesNode() {
		return ""
	}
	for d := g.Dir(); ; d = path.Dir(d) {
		if g.IsDir(d + "/node_modules") {
			return d + "/node_modules"
		}
		if d == "/" {
			return ""
		}
	}
}

var required = regexp.MustCompile(`(?:require\(\s*|from\s+|import\s*\(?\s*)['"]((?:@[\w.-]+/)?[\w.-]+)`)

// nodeUsed are the installed packages that the project's sources and tests
// load, and the ones that these need, the least first.
func (g *Ground) nodeUsed() []string {
	root := g.modulesDir()
	if root == "" {
		return nil
	}
	var need []string
	for _, p := range g.Everything(".js", ".cjs", ".mjs", ".ts", ".tsx", ".jsx") {
		t, _ := g.Text(p)
		for _, m := range required.FindAllStringSubmatch(t, -1) {
			need = append(need, m[1])
		}
	}
	if m, ok := g.manifestAt(g.near("package.json")); ok {
		for n := range m.DevDeps {
			need = append(need, n)
		}
	}
	slices.Sort(need)
	seen := map[string]bool{}
	var all []string
	for len(need) > 0 && len(all) < 400 {
		n := need[0]
		need = need[1:]
		p := root + "/" + n
		if seen[n] || strings.HasPrefix(n, ".") || !g.IsDir(p) {
			continue
		}
		seen[n] = true
		all = append(all, p)
		if m, ok := g.manifestAt(p + "/package.json"); ok {
			deps := make([]string, 0, len(m.Deps))
			for d := range m.Deps {
				deps = append(deps, d)
			}
			slices.Sort(deps)
			need = append(need, deps...)
		}
	}
	return all
}

// nodeMissing: npm leaves a package under a temporary name when an install is
// cut off.
func nodeMissing(g *Ground) []choice {
	var all []choice
	for _, p := range g.nodeUsed() {
		if g.sizeOf(p) <= maxMoved {
			all = append(all, g.moved(p, path.Dir(p)+"/."+path.Base(p)+"-"+tag(p))...)
		}
	}
	return all
}

// tag is eight letters that a path always gives.
func tag(p string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	h := uint64(14695981039346656037)
	for i := range len(p) {
		h = (h ^ uint64(p[i])) * 1099511628211
	}
	b := make([]byte, 8)
	for i := range b {
		b[i] = letters[h%62]
		h = h/62 ^ h*31
	}
	return string(b)
}

// nodeNested: a package brings an early copy of another that it needs.
func nodeNested(g *Ground) []choice {
	var all []choice
	root := g.modulesDir()
	for _, p := range g.nodeUsed() {
		m, ok := g.manifestAt(p + "/package.json")
		if !ok {
			continue
		}
		deps := make([]string, 0, len(m.Deps))
		for d := range m.Deps {
			deps = append(deps, d)
		}
		slices.Sort(deps)
		for _, d := range deps {
			at := p + "/node_modules/" + d
			if !g.IsDir(root+"/"+d) || g.Has(at) {
				continue
			}
			all = append(all, choice{Site{Path: at, What: d}, func(*rand.Rand) (forge.Delta, error) { return g.earlyModule(at, d), nil }})
		}
	}
	return all
}

// nodeShadow: a directory of modules nearer to the sources than the project's.
func nodeShadow(g *Ground) []choice {
	var all []choice
	root := g.modulesDir()
	if root == "" {
		return nil
	}
	for _, dir := range []string{"src", "lib", "test", "tests", "packages"} {
		base := g.Dir() + "/" + dir
		if !g.IsDir(base) {
			continue
		}
		for _, p := range g.nodeUsed() {
			d := strings.TrimPrefix(p, root+"/")
			at := base + "/node_modules/" + d
			if !g.Has(at) && g.Ours(at) {
				all = append(all, choice{Site{Path: at, What: d}, func(*rand.Rand) (forge.Delta, error) { return g.earlyModule(at, d), nil }})
			}
		}
	}
	return all
}

// earlyModule is a first release of a package, which could little.
func (g *Ground) earlyModule(at, name string) forge.Delta {
	d := g.Write(at+"/package.json", []byte("{\n  \"name\": \""+name+"\",\n  \"version\": \"0.1.0\",\n  \"main\": \"index.js\"\n}\n"))
	return merge(d, g.Write(at+"/index.js", []byte("'use strict'\n\nmodule.exports = {}\n")))
}

var entryLine = regexp.MustCompile(`(?m)^(\s*"main"\s*:\s*")([^"]+)(")`)

// nodeEntry: a package names an entry that was never built.
func nodeEntry(g *Ground) []choice {
	var all []choice
	for _, p := range g.nodeUsed() {
		file := p + "/package.json"
		t, ok := g.Text(file)
		if !ok || !g.Ours(file) {
			continue
		}
		at := strings.Index(t, "{")
		if at < 0 {
			continue
		}
		edits := map[string]string{}
		if !strings.Contains(t, `"exports"`) {
			edits["exports"] = t[:at+1] + "\n  \"exports\": \"./build/main/index.js\"," + t[at+1:]
		} else {
			edits["exports-renamed"] = strings.Replace(t, `"require":`, `"browser":`, 1)
			edits["exports-default"] = strings.NewReplacer(`"import": "./`, `"import": "./build/`, `"default": "./`, `"default": "./build/`, `"require": "./`, `"require": "./build/`).Replace(t)
		}
		if entryLine.MatchString(t) && !g.isFile(p+"/index.js") {
			edits["main"] = entryLine.ReplaceAllString(t, "${1}build/index.js$3")
		}
		for _, what := range []string{"exports", "exports-renamed", "exports-default", "main"} {
			if text := edits[what]; text != "" && text != t {
				all = append(all, choice{Site{Path: file, What: what}, g.rewrite(file, rewrite{what: what, text: text})})
			}
		}
	}
	return all
}

var typeField = regexp.MustCompile(`("type"\s*:\s*")(module|commonjs)(")`)

func nodeType(_ *Ground, _, text string) []rewrite {
	if m := typeField.FindStringSubmatch(text); m != nil {
		other := map[string]string{"module": "commonjs", "commonjs": "module"}[m[2]]
		return []rewrite{{what: other, text: typeField.ReplaceAllString(text, "${1}"+other+"$3")}}
	}
	if at := strings.Index(text, "{"); at >= 0 {
		return []rewrite{{what: "module", text: text[:at+1] + "\n  \"type\": \"module\"," + text[at+1:]}}
	}
	return nil
}

// nodeScripts: the script that the suite's command calls has another name, or
// calls another program.
func nodeScripts(g *Ground, p, text string) []rewrite {
	m, ok := g.manifestAt(p)
	if !ok {
		return nil
	}
	var all []rewrite
	for _, n := range slices.Sorted(keys(m.Scripts)) {
		used := strings.Contains(g.Commands(), "npm run "+n) || n == "test" && regexp.MustCompile(`\b(npm|yarn|pnpm)( run)? (t|test)\b`).MatchString(g.Commands())
		key := regexp.MustCompile(`"` + regexp.QuoteMeta(n) + `"(\s*:\s*")`)
		if used && len(key.FindAllString(text, -1)) == 1 {
			all = append(all, rewrite{what: n, text: key.ReplaceAllString(text, `"`+n+`:all"$1`)},
				rewrite{what: n + " env", text: key.ReplaceAllString(text, `"`+n+`"${1}NODE_ENV=production node -r ./scripts/setup.js && `)})
		}
	}
	return all
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func nodeImports(g *Ground, p, text string) []rewrite {
	m, ok := g.manifestAt(p)
	if !ok {
		return nil
	}
	var all []rewrite
	for _, n := range slices.Sorted(keys(m.Imports)) {
		to := strings.Replace(text, `"`+n+`"`, `"#`+strings.TrimPrefix(n, "#")+`-internal"`, 1)
		all = append(all, rewrite{what: n, text: to})
	}
	return all
}

func nodeRC(g *Ground) []choice {
	if !g.usesNode() || !regexp.MustCompile(`\b(npm|npx|yarn|pnpm)\b`).MatchString(g.Commands()) {
		return nil
	}
	lines := []struct{ what, text string }{
		{"script-shell", "script-shell=/usr/local/bin/zsh\n"},
		{"node-options", "node-options=--require ./scripts/preload.cjs\n"},
		{"engine-strict", "engine-strict=true\nregistry=http://npm.build.internal/\n"},
		{"prefix", "prefix=/usr/local/lib/npm\nprefer-offline=true\nscripts-prepend-node-path=true\nworkspace=packages/core\n"},
		{"ignore-scripts", "ignore-scripts=true\n"},
		{"if-present", "workspaces=true\n"},
	}
	var all []choice
	for _, at := range []string{path.Dir(g.near("package.json")) + "/.npmrc", g.Home() + "/.npmrc", "/etc/npmrc"} {
		was, _ := g.Text(at)
		for _, l := range lines {
			if g.Ours(at) && path.IsAbs(at) {
				all = append(all, choice{Site{Path: at, What: l.what}, func(*rand.Rand) (forge.Delta, error) { return g.Write(at, []byte(was+l.text)), nil }})
			}
		}
	}
	return all
}

func nodeLocks(g *Ground) []string {
	if p := g.near("package-lock.json"); p != "" && g.usesNode() && strings.Contains(g.Commands(), "npm ci") {
		return []string{p}
	}
	return nil
}

var (
	lockVersion = regexp.MustCompile(`"node_modules/([^"]+)": \{\s*"version": "(\d+)\.`)
	lockDigest  = regexp.MustCompile(`"node_modules/([^"]+)": \{[^{}]*?"integrity": "sha\d+-([A-Za-z0-9+/])`)
)

// nodeLockDrift locks what the manifest does not ask for, or another content:
// a version that still is in the range would be fetched in silence.
func nodeLockDrift(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range lockVersion.FindAllStringSubmatchIndex(text, 12) {
		all = append(all, rewrite{what: text[m[2]:m[3]] + " version", text: text[:m[4]] + bump(text[m[4]:m[5]]) + text[m[5]:]})
	}
	for _, m := range lockDigest.FindAllStringSubmatchIndex(text, 12) {
		to := "A"
		if text[m[4]] == 'A' {
			to = "w"
		}
		all = append(all, rewrite{what: text[m[2]:m[3]] + " content", text: text[:m[4]] + to + text[m[5]:]})
	}
	return all
}

func nodeTSConfigs(g *Ground) []string {
	if p := g.near("tsconfig.json"); p != "" && g.usesNode() {
		return []string{p}
	}
	return nil
}

func nodeTSConfig(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	change := func(what, expression, to string) {
		r := regexp.MustCompile(expression)
		all = append(all, rewrite{what: what, text: r.ReplaceAllString(text, to), rebuilt: true})
	}
	change("target", `(?i)("target"\s*:\s*")es?\w+(")`, "${1}ES3$2")
	change("module", `(?i)("module"\s*:\s*")\w+(")`, "${1}AMD$2")
	change("paths", `("@?[\w/~-]+/\*"\s*:\s*\[\s*")(\./)?`, "${1}./generated/")
	change("rootDir", `("rootDir"\s*:\s*")[^"]*(")`, "${1}./source$2")
	change("baseUrl", `("baseUrl"\s*:\s*")[^"]*(")`, "${1}./lib-types$2")
	change("jsx", `("jsx"\s*:\s*")[^"]*(")`, "${1}preserve$2")
	change("interop", `("esModuleInterop"\s*:\s*)true`, "${1}false")
	change("decorators", `("experimentalDecorators"\s*:\s*)true`, "${1}false")
	change("extends", `("extends"\s*:\s*")[^"]*(")`, "${1}@tsconfig/node8/tsconfig.json$2")
	change("lib", `("lib"\s*:\s*\[)[^\]]*(\])`, `${1}"ES5"$2`)
	if at := strings.Index(text, `"compilerOptions"`); at >= 0 {
		if brace := strings.Index(text[at:], "{"); brace >= 0 {
			i := at + brace + 1
			all = append(all, rewrite{what: "types", text: text[:i] + "\n    \"types\": [\"node-build\"]," + text[i:], rebuilt: true})
		}
	}
	return all
}

// nodeBin: a link among the programs of packages leads where nothing is.
func nodeBin(g *Ground) []choice {
	root := g.modulesDir()
	if root == "" {
		return nil
	}
	text := g.Commands()
	if m, ok := g.manifestAt(g.near("package.json")); ok {
		for _, n := range slices.Sorted(keys(m.Scripts)) {
			text += "\n" + m.Scripts[n]
		}
	}
	var all []choice
	for _, e := range g.List(root + "/.bin") {
		p := "/" + e.Path
		if !regexp.MustCompile(`(^|[\s/])` + regexp.QuoteMeta(path.Base(p)) + `($|\s)`).MatchString(text) {
			continue
		}
		if e.Type == image.TypeSymlink {
			to := path.Dir(e.Link) + "/dist/" + path.Base(e.Link)
			all = append(all, choice{Site{Path: p, What: "dangling"}, func(*rand.Rand) (forge.Delta, error) { return g.Link(p, to), nil }})
		}
		real := g.Real(p)
		if r, ok := g.Entry(real); ok && r.Type == image.TypeFile && r.Mode&0o111 != 0 {
			all = append(all, choice{Site{Path: real, What: "mode"}, func(*rand.Rand) (forge.Delta, error) { return g.Chmod(real, 0o644), nil }})
		}
	}
	return all
}

// nodeAddon: compiled modules for another machine.
func nodeAddon(g *Ground) []choice {
	root := g.modulesDir()
	if root == "" {
		return nil
	}
	var all []choice
	_ = g.Tree.Walk(root, func(e image.Entry) error {
		p := "/" + e.Path
		if e.Type != image.TypeFile || !strings.HasSuffix(p, ".node") || e.Size > maxMoved || len(all) > 8 {
			return nil
		}
		all = append(all, choice{Site{Path: p}, func(*rand.Rand) (forge.Delta, error) {
			b, ok := g.Bytes(p)
			if !ok || len(b) < 20 || string(b[:4]) != "\x7fELF" {
				return nil, errSite
			}
			b = slices.Clone(b)
			b[18], b[19] = 0xb7, 0 // AArch64
			return g.Write(p, b), nil
		}})
		return nil
	})
	return all
}

// nodeTruncated: the end of a module's entry is lost; what was there can be
// read off its beginning.
func nodeTruncated(g *Ground) []choice {
	var all []choice
	for _, p := range g.nodeUsed() {
		m, _ := g.manifestAt(p + "/package.json")
		entry := m.Main
		if entry == "" {
			entry = "index.js"
		}
		file := path.Join(p, entry)
		if !strings.HasSuffix(file, ".js") {
			continue
		}
		if t, ok := g.Text(file); ok {
			if cut := closers(t); cut != "" {
				all = append(all, choice{Site{Path: file}, g.rewrite(file, rewrite{text: cut})})
			}
		}
	}
	return all
}

// closers cuts the brackets off that a text ends with; empty: there are none.
func closers(text string) string {
	t := strings.TrimRight(text, " \t\r\n;")
	cut := strings.TrimRight(t, " \t\r\n;,)]}")
	if cut == "" || !strings.ContainsAny(t[len(cut):], ")]}") {
		return ""
	}
	return cut + "\n"
}

// nodeStray: configuration that a tool finds and its user forgot.
func nodeStray(g *Ground) []choice {
	if !g.usesNode() {
		return nil
	}
	root := path.Dir(g.near("package.json"))
	text := g.Commands()
	if m, ok := g.manifestAt(root + "/package.json"); ok {
		for _, n := range slices.Sorted(keys(m.Scripts)) {
			text += "\n" + m.Scripts[n]
		}
	}
	var all []choice
	add := func(tool, file, what, content string) {
		if strings.Contains(text, tool) && path.IsAbs(root) {
			all = append(all, g.added(root+"/"+file, what, content)...)
		}
	}
	add("jest", ".babelrc", "preset", "{\n  \"presets\": [\"@babel/preset-env-modern\"]\n}\n")
	add("jest", "jest.config.json", "config", "{\n  \"testEnvironment\": \"jsdom-sixteen\"\n}\n")
	add("mocha", ".mocharc.json", "require", "{\n  \"require\": [\"./test/setup.cjs\"]\n}\n")
	add("mocha", ".mocharc.yml", "spec", "spec: spec/**/*.spec.cjs\n")
	add("ava", "ava.config.cjs", "files", "module.exports = { files: ['spec/**'] }\n")
	add("vitest", "vitest.config.mjs", "include", "export default { test: { include: ['spec/**/*.spec.ts'] } }\n")
	add("tape", ".taprc", "config", "files: spec/**\n")
	add("babel", "babel.config.json", "preset", "{\n  \"presets\": [\"@babel/preset-env-modern\"]\n}\n")
	// A manifest between the sources and the project's own decides their type.
	for _, dir := range []string{"src", "lib", "test", "tests", "dist"} {
		if !g.IsDir(root + "/" + dir) {
			continue
		}
		kind := "module"
		if m, _ := g.manifestAt(root + "/package.json"); m.Type == "module" {
			kind = "commonjs"
		}
		all = append(all, g.added(root+"/"+dir+"/package.json", kind, "{\n  \"private\": true,\n  \"type\": \""+kind+"\"\n}\n")...)
	}
	return all
}

// nodeLinks: packages of a workspace that are linked lead elsewhere.
func nodeLinks(g *Ground) []choice {
	root := g.modulesDir()
	if root == "" {
		return nil
	}
	var all []choice
	look := func(dir string) {
		for _, e := range g.List(dir) {
			if p := "/" + e.Path; e.Type == image.TypeSymlink {
				to := path.Join(path.Dir(e.Link), "old", path.Base(e.Link))
				all = append(all, choice{Site{Path: p}, func(*rand.Rand) (forge.Delta, error) { return g.Link(p, to), nil }})
			}
		}
	}
	look(root)
	for _, e := range g.List(root) {
		if e.IsDir() && strings.HasPrefix(path.Base(e.Path), "@") {
			look("/" + e.Path)
		}
	}
	return all
}

// nodeVariables are faults in the variables that the runtime reads.
func nodeVariables() []Operator {
	only := func(list ...Payload) func(g *Ground) []Payload {
		return func(g *Ground) []Payload {
			if !g.usesNode() {
				return nil
			}
			return list
		}
	}
	p := func(name, why, variable, value string) Payload {
		return Payload{Name: name, File: "nodejs", Why: why, Tool: "node", Lines: []string{export(variable, value)}}
	}
	return []Operator{
		Carried(Operator{Name: "node-options", Number: 23, Ecosystem: Node, Family: Config, Realism: 4, Hint: "with which options the runtime starts"}, only(
			p("require", "instrumentation", "NODE_OPTIONS", "--require /opt/monitoring/register.cjs"),
			p("heap", "small containers", "NODE_OPTIONS", "--max-old-space-size=4"),
			p("strings", "no code from text", "NODE_OPTIONS", "--disallow-code-generation-from-strings"),
			p("warnings", "strict", "NODE_OPTIONS", "--throw-deprecation --trace-deprecation"),
			p("unknown", "", "NODE_OPTIONS", "--openssl-legacy-providers"),
			p("conditions", "builds for browsers", "NODE_OPTIONS", "--conditions=browser"),
			p("stack", "keep recursion in check", "NODE_OPTIONS", "--stack-trace-limit=0 --frozen-intrinsics"),
			p("loader", "types on the fly", "NODE_OPTIONS", "--import ts-loader-fast"),
		)),
		Carried(Operator{Name: "node-environment", Ecosystem: Node, Family: Config, Realism: 4, Hint: "what the programs read from their environment",
			Masked: "projects differ in what they read"}, only(
			p("production", "", "NODE_ENV", "production"),
			p("extra-ca", "", "NODE_EXTRA_CA_CERTS", "/etc/ssl/company.pem"),
			p("pending", "", "NODE_PENDING_DEPRECATION", "1"),
			Payload{Name: "colour", File: "nodejs", Why: "readable logs", Tool: "node", Lines: []string{export("FORCE_COLOR", "3")}},
			Payload{Name: "v8-compile", File: "nodejs", Tool: "node", Lines: []string{export("NODE_V8_COVERAGE", "/dev/null/coverage")}},
		)),
		Carried(Operator{Name: "npm-settings", Ecosystem: Node, Family: Config, Realism: 4, Hint: "what the package manager reads from its environment"}, func(g *Ground) []Payload {
			if !g.usesNode() || !strings.Contains(g.Commands(), "npm") {
				return nil
			}
			return []Payload{
				p("script-shell", "", "npm_config_script_shell", "/usr/local/bin/zsh"),
				p("node-options", "", "npm_config_node_options", "--require /opt/monitoring/register.cjs"),
				p("workspaces", "", "npm_config_workspaces", "true"),
			}
		}),
	}
}
