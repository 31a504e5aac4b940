package invert

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// rustConfig are faults of Cargo's configuration: files in the project, above
// it and in the user's home, and variables of the session.
func rustConfig() []Operator {
	op := func(number int, name string, f Family, realism int, list ...cargoSetting) Operator {
		return cargoConfigured(Operator{Name: "cargo-" + name, Number: number, Ecosystem: Rust, Family: f, Realism: realism,
			Hint: "the configuration that Cargo finds"}, func(*Ground) []cargoSetting { return list })
	}
	host := "target.x86_64-unknown-linux-gnu"
	return []Operator{
		op(40, "deny-lints", Config, 4,
			cargoSetting{"missing docs", "build", "rustflags", `["-D", "missing-docs"]`, "RUSTFLAGS=-D missing-docs"},
			cargoSetting{"warnings", "build", "rustflags", `["-D", "warnings"]`, "RUSTFLAGS=-D warnings"},
			cargoSetting{"unused", "build", "rustflags", `["-D", "unused", "-D", "unreachable-pub"]`, ""}),
		op(41, "target-absent", Config, 3,
			cargoSetting{"wasm", "build", "target", `"wasm32-unknown-unknown"`, "CARGO_BUILD_TARGET=wasm32-unknown-unknown"},
			cargoSetting{"musl", "build", "target", `"aarch64-unknown-linux-musl"`, "CARGO_BUILD_TARGET=aarch64-unknown-linux-musl"}),
		op(0, "linker-missing", Config, 5,
			cargoSetting{"clang", host, "linker", `"clang-15"`, "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=clang-15"}),
		op(0, "fuse-ld", Config, 5,
			cargoSetting{"mold", "build", "rustflags", `["-C", "link-arg=-fuse-ld=mold"]`, "RUSTFLAGS=-C link-arg=-fuse-ld=mold"}),
		op(0, "runner-missing", Config, 4,
			cargoSetting{"qemu", host, "runner", `"qemu-x86_64 -L /usr/x86_64-linux-gnu"`, "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=qemu-x86_64"}),
		op(0, "wrapper-missing", Config, 5,
			cargoSetting{"sccache", "build", "rustc-wrapper", `"sccache"`, "RUSTC_WRAPPER=sccache"}),
		op(0, "rustc-missing", Config, 3,
			cargoSetting{"old prefix", "build", "rustc", `"/opt/rust-1.70/bin/rustc"`, "RUSTC=/opt/rust-1.70/bin/rustc"}),
		op(0, "jobs-zero", Config, 2, cargoSetting{"jobs", "build", "jobs", "0", "CARGO_BUILD_JOBS=0"}),
		op(0, "test-threads", Config, 3, cargoSetting{"threads", "env", "RUST_TEST_THREADS", `"0"`, "RUST_TEST_THREADS=0"}),
		cargoConfigured(Operator{Name: "cargo-home-moved", Ecosystem: Rust, Family: Dependency, Masked: "vendored sources, and none, are found without it", Realism: 4,
			Hint: "where Cargo keeps what it fetched"}, cargoHomeMoved),
		cargoConfigured(Operator{Name: "cargo-source-replaced", Ecosystem: Rust, Family: Dependency, Masked: "vendored sources, and none, are found without it", Realism: 5,
			Hint: "where the sources of dependencies come from"}, cargoSourceReplaced),
		rewritten(Operator{Name: "cargo-vendor-directory", Ecosystem: Rust, Family: Dependency, Realism: 4,
			Hint: "where the sources of dependencies come from"}, cargoConfigs, cargoVendorDirectory),
	}
}

// cargoSetting is one key of Cargo's configuration, and the variable that says
// the same, if there is one.
type cargoSetting struct{ what, table, key, value, variable string }

// cargoConfigured makes an operator of settings: in the project's file, in the
// one above it, in the user's, and in every carrier of the session.
func cargoConfigured(o Operator, list func(g *Ground) []cargoSetting) Operator {
	return chosen(o, func(g *Ground) []choice {
		if g.near("Cargo.toml") == "" {
			return nil
		}
		var all []choice
		for _, s := range list(g) {
			for _, p := range cargoConfigFiles(g) {
				if s.key == "" {
					break // a variable only
				}
				was, ok := g.Text(p)
				if !ok && g.Has(p) || !g.Ours(p) {
					continue
				}
				if text := tomlWith(was, s.table, s.key, s.value); text != was {
					all = append(all, choice{Site{Path: p, What: s.what}, g.rewrite(p, rewrite{text: text})})
				}
			}
			if name, value, ok := strings.Cut(s.variable, "="); ok {
				all = append(all, g.carried(Payload{Name: s.what, File: "rust", Why: "Rust", Lines: []string{export(name, value)}, Tool: "cargo"})...)
			}
		}
		return all
	})
}

// cargoConfigs are the configuration files that are there.
func cargoConfigs(g *Ground) []string {
	return slices.DeleteFunc(cargoConfigFiles(g), func(p string) bool { return !g.isFile(p) })
}

func cargoConfigFiles(g *Ground) []string {
	project := g.near(".cargo/config.toml", ".cargo/config")
	if project == "" {
		project = path.Join(g.Dir(), ".cargo/config.toml")
	}
	home := path.Join(g.Home(), ".cargo")
	if v, ok := g.exported("CARGO_HOME"); ok && path.IsAbs(v) {
		home = v
	}
	all := []string{project, path.Join(home, "config.toml")}
	if d := path.Dir(path.Clean(g.Env.Workdir)); d != "/root" {
		all = append(all, path.Join(d, ".cargo/config.toml"))
	}
	return slices.Compact(all)
}

// tomlWith sets a key of a table, in the table where it stands already.
func tomlWith(text, table, key, value string) string {
	from, to, ok := cargoSection(text, regexp.QuoteMeta(table))
	if !ok {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if text != "" {
			text += "\n"
		}
		return text + "[" + table + "]\n" + key + " = " + value + "\n"
	}
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + `\s*=.*$`)
	if at := line.FindStringIndex(text[from:to]); at != nil {
		return text[:from+at[0]] + key + " = " + value + text[from+at[1]:]
	}
	return text[:from] + "\n" + key + " = " + value + text[from:]
}

// cargoFetches reports dependencies that are neither paths nor vendored.
func cargoFetches(g *Ground) bool {
	lock, _ := g.Text(g.near("Cargo.lock"))
	return strings.Contains(lock, `source = "registry+`)
}

func cargoHomeMoved(g *Ground) []cargoSetting {
	if !cargoFetches(g) || cargoVendor(g) != "" {
		return nil
	}
	return []cargoSetting{{what: "cache", variable: "CARGO_HOME=/mnt/cache/cargo"}}
}

func cargoSourceReplaced(g *Ground) []cargoSetting {
	if !cargoFetches(g) || cargoVendor(g) != "" {
		return nil
	}
	return []cargoSetting{
		{what: "vendored", table: "source.crates-io", key: "replace-with", value: `"vendored-sources"`},
		{what: "mirror", table: "source.crates-io", key: "replace-with", value: `"mirror"` + "\n\n[source.mirror]\nregistry = \"sparse+http://127.0.0.1:8899/index/\""},
	}
}

func cargoVendorDirectory(_ *Ground, _, text string) []rewrite {
	line := regexp.MustCompile(`(?m)^directory\s*=\s*"([^"]+)"`)
	return []rewrite{{what: "third_party", text: line.ReplaceAllString(text, `directory = "third_party/$1"`)}}
}
