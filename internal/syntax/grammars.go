package syntax

import (
	"path"
	"slices"
	"strings"
)

// artefact is one file of a pinned package.
type artefact struct {
	name, version string
	integrity     string // of the package's archive, as registries print it
	file          string // in the archive
	sum           string // SHA-256 of the file
}

// key names the file in a cache.
func (a artefact) key() string {
	return a.name + "-" + a.version + "-" + path.Base(a.file)
}

// grammar is how a language is parsed. All packages are under the MIT licence.
type grammar struct {
	artefact
	language Language
	endings  []string // of file names, with their dot
	export   string   // the function that gives the language
}

// runtime is the parser itself, which all grammars share.
func runtime() artefact {
	return artefact{"web-tree-sitter", "0.27.1", "sha512-qtx0VyUyNRHtL3ze7+v0hCKB/sLcAmY7ZAVp/ZK/bCj0yED8ptvNrr7Vd7DwDyKDWN9baqcUx4uaD2r2ql+6IA==",
		"package/web-tree-sitter.wasm", "beca80e44cccbf2299ed4d1e3fa6462a9a6fe818aeebf847547a392227ce4acc"}
}

// grammars is the table of languages. A further one is one row, its package
// with its integrity as the registry prints it, and a sample in testdata.
func grammars() []grammar {
	const typescript = "sha512-e04JUUKxTT53/x3Uq1zIL45DoYKVfHH4CZqwgZhPg5qYROl5nQjV+85ruFzFGZxu+QeFVbRTPDRnqL9UbU4VeA=="
	return []grammar{
		{artefact{"tree-sitter-python", "0.25.0", "sha512-eCmJx6zQa35GxaCtQD+wXHOhYqBxEL+bp71W/s3fcDMu06MrtzkVXR437dRrCrbrDbyLuUDJpAgycs7ncngLXw==",
			"package/tree-sitter-python.wasm", "16108b50df4ee9a30168794252ab55e7c93bfc5765d7fa0aa3e335752c515f47"},
			Python, []string{".py", ".pyi"}, "tree_sitter_python"},
		{artefact{"tree-sitter-javascript", "0.25.0", "sha512-1fCbmzAskZkxcZzN41sFZ2br2iqTYP3tKls1b/HKGNPQUVOpsUxpmGxdN/wMqAk3jYZnYBR1dd/y/0avMeU7dw==",
			"package/tree-sitter-javascript.wasm", "5fb488d0cabb4775a594bab85682de5ad6ce83c0d6ac997a9f82dd084d571240"},
			JavaScript, []string{".js", ".mjs", ".cjs", ".jsx"}, "tree_sitter_javascript"},
		{artefact{"tree-sitter-typescript", "0.23.2", typescript,
			"package/tree-sitter-typescript.wasm", "778025db5a8be0e70f8ccc3671e486dfeddd048c25d9e8a70c26de2e1bf6f97d"},
			TypeScript, []string{".ts", ".mts", ".cts"}, "tree_sitter_typescript"},
		{artefact{"tree-sitter-typescript", "0.23.2", typescript,
			"package/tree-sitter-tsx.wasm", "79e5da75ea62855a0cd67177685f0164eac87d5f630b3cbe1e0a099751ad30f8"},
			TSX, []string{".tsx"}, "tree_sitter_tsx"},
		{artefact{"tree-sitter-go", "0.25.0", "sha512-APBc/Dq3xz/e35Xpkhb1blu5UgW+2E3RyGWawZSCNcbGwa7jhSQPS8KsUupuzBla8PCo8+lz9W/JDJjmfRa2tw==",
			"package/tree-sitter-go.wasm", "9504573f352b20be7f2f1911754d710622aedc15afff16d5ed8fb5645681aee7"},
			Go, []string{".go"}, "tree_sitter_go"},
		{artefact{"tree-sitter-rust", "0.24.0", "sha512-NWemUDf629Tfc90Y0Z55zuwPCAHkLxWnMf2RznYu4iBkkrQl2o/CHGB7Cr52TyN5F1DAx8FmUnDtCy9iUkXZEQ==",
			"package/tree-sitter-rust.wasm", "f65f354215611fd94ad34134b3427eb3d58cbb745df7b6509ba722184db73d57"},
			Rust, []string{".rs"}, "tree_sitter_rust"},
		{artefact{"tree-sitter-java", "0.23.5", "sha512-Yju7oQ0Xx7GcUT01mUglPP+bYfvqjNCGdxqigTnew9nLGoII42PNVP3bHrYeMxswiCRM0yubWmN5qk+zsg0zMA==",
			"package/tree-sitter-java.wasm", "4fdeac4ca6ca089f06c6f7e562abcac1733cd465728cc7031ebb73c2019122c4"},
			Java, []string{".java"}, "tree_sitter_java"},
		{artefact{"tree-sitter-c", "0.24.1", "sha512-lkYwWN3SRecpvaeqmFKkuPNR3ZbtnvHU+4XAEEkJdrp3JfSp2pBrhXOtvfsENUneye76g889Y0ddF2DM0gEDpA==",
			"package/tree-sitter-c.wasm", "c852c2a85ebf2beb636aa3b0ef7f7e70458684d74f6741b20dcb296885bed9f9"},
			C, []string{".c", ".h"}, "tree_sitter_c"},
		{artefact{"tree-sitter-cpp", "0.23.4", "sha512-qR5qUDyhZ5jJ6V8/umiBxokRbe89bCGmcq/dk94wI4kN86qfdV8k0GHIUEKaqWgcu42wKal5E97LKpLeVW8sKw==",
			"package/tree-sitter-cpp.wasm", "174eb0deb75b2ec7881bcacda9f995648d8e683956e5c2267e69ab6dc503fcbf"},
			CPP, []string{".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"}, "tree_sitter_cpp"},
	}
}

// Languages are all that can be parsed.
func Languages() []Language {
	var all []Language
	for _, g := range grammars() {
		all = append(all, g.language)
	}
	return all
}

// ByPath is the language of a file by its name's ending. A header counts as C.
func ByPath(name string) (Language, bool) {
	ending := strings.ToLower(path.Ext(name))
	for _, g := range grammars() {
		if slices.Contains(g.endings, ending) {
			return g.language, true
		}
	}
	return "", false
}

func grammarOf(lang Language) (grammar, bool) {
	all := grammars()
	i := slices.IndexFunc(all, func(g grammar) bool { return g.language == lang })
	if i < 0 {
		return grammar{}, false
	}
	return all[i], true
}
