package invert

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
)

// session are faults of what a login shell hands to every program: time,
// language, limits, paths, proxies.
func session() []Operator {
	op := func(number int, name string, realism int, hint string, list ...Payload) Operator {
		return sessionCarried(Operator{Name: "session-" + name, Number: number, Ecosystem: Any, Family: Session, Realism: realism, Hint: hint},
			func(*Ground) []Payload { return list })
	}
	v := func(file, what string, pairs ...string) Payload {
		p := Payload{Name: what, File: file}
		for i := 0; i+1 < len(pairs); i += 2 {
			p.Lines = append(p.Lines, export(pairs[i], pairs[i+1]))
		}
		return p
	}
	line := func(file, what string, lines ...string) Payload { return Payload{Name: what, File: file, Lines: lines} }
	env, shell := "the variables that a login shell sets", "the shell that the commands run in"
	locale := op(80, "locale", 4, env, v("locale", "C", "LC_ALL", "C", "PYTHONCOERCECLOCALE", "0", "PYTHONUTF8", "0"),
		v("locale", "turkish", "LC_ALL", "tr_TR.UTF-8", "LANGUAGE", "tr"), v("locale", "POSIX", "LC_ALL", "POSIX", "LANG", "POSIX"))
	locale.Masked = "programs fall back to UTF-8, or do not look"
	tmp := op(81, "tmp-missing", 3, env, v("tmp", "missing", "TMPDIR", "/mnt/scratch/tmp"), v("tmp", "file", "TMPDIR", "/etc/hostname"))
	tmp.Masked = "programs fall back to /tmp"
	all := []Operator{
		op(79, "time-zone", 4, env, v("tz", "Chatham", "TZ", "Pacific/Chatham"), v("tz", "Kathmandu", "TZ", "Asia/Kathmandu"), v("tz", "posix", "TZ", "EST5EDT")),
		locale, tmp,
		op(82, "limit-files", 4, shell, line("limits", "12", "ulimit -n 12"), line("limits", "24", "ulimit -n 24")),
		op(82, "limit-memory", 4, shell, line("limits", "200 MB", "ulimit -v 200000"), line("limits", "60 MB", "ulimit -v 60000")),
		op(82, "limit-file-size", 3, shell, line("limits", "1 block", "ulimit -f 1"), line("limits", "64 blocks", "ulimit -f 64")),
		op(82, "limit-stack", 3, shell, line("limits", "128 kB", "ulimit -s 128"), line("limits", "64 kB", "ulimit -s 64")),
		op(85, "umask", 3, shell, line("umask", "0177", "umask 0177"), line("umask", "0777", "umask 0777"), line("umask", "0111", "umask 0111")),
		op(91, "proxy", 5, env, v("proxy", "dead", "http_proxy", "http://127.0.0.1:3129", "https_proxy", "http://127.0.0.1:3129", "HTTP_PROXY", "http://127.0.0.1:3129", "ALL_PROXY", "http://127.0.0.1:3129")),
		op(92, "certificates", 4, env, v("ssl", "moved", "SSL_CERT_FILE", "/etc/pki/tls/certs/ca-bundle.crt", "REQUESTS_CA_BUNDLE", "/etc/pki/tls/certs/ca-bundle.crt",
			"CURL_CA_BUNDLE", "/etc/pki/tls/certs/ca-bundle.crt", "SSL_CERT_DIR", "/etc/pki/tls/certs")),
		op(93, "home-moved", 3, env, v("home", "missing", "HOME", "/nonexistent"), v("home", "file", "HOME", "/etc/hostname"),
			v("xdg", "xdg", "XDG_CONFIG_HOME", "/etc/hostname", "XDG_CACHE_HOME", "/etc/hostname", "XDG_DATA_HOME", "/etc/hostname")),
		op(0, "path-overwritten", 5, "where programs are looked for", line("path", "plain", "export PATH=/usr/sbin:/sbin"),
			line("path", "tools", "export PATH=/opt/tools/bin:/usr/local/games"), line("path", "tilde", `export PATH="~/bin:/snap/bin"`)),
		op(0, "cd-path", 4, shell, v("cd", "set", "CDPATH", ".:/srv:/opt")),
		op(0, "directory-left", 3, shell, line("workdir", "srv", "cd /srv"), line("workdir", "opt", "cd /opt && export PWD")),
		op(0, "options-strict", 3, shell, line("strict", "noglob", "set -f"), line("strict", "noclobber", "set -C")),
		op(0, "posix-tools", 3, env, v("posix", "strict", "POSIXLY_CORRECT", "1")),
		op(0, "separator", 2, shell, line("ifs", "colon", "IFS=:"), line("ifs", "equals", "IFS==/")),
		op(0, "colour-forced", 4, env, v("colour", "forced", "FORCE_COLOR", "1", "CLICOLOR_FORCE", "1", "PY_COLORS", "1"), v("colour", "off", "NO_COLOR", "1", "TERM", "dumb")),
		op(0, "terminal-width", 4, env, v("terminal", "narrow", "COLUMNS", "20", "LINES", "5"), v("terminal", "wide", "COLUMNS", "400")),
		op(0, "build-time", 3, env, v("reproducible", "epoch", "SOURCE_DATE_EPOCH", "0"), v("reproducible", "text", "SOURCE_DATE_EPOCH", "2024-01-01")),
		op(0, "crypto-config", 5, "the settings of the cryptographic library", Payload{Name: "legacy provider", File: "openssl",
			Lines: []string{export("OPENSSL_CONF", "/etc/ssl/openssl-legacy.cnf")}, More: func(g *Ground) forge.Delta {
				return g.Write("/etc/ssl/openssl-legacy.cnf", []byte("openssl_conf = init\n\n[init]\nproviders = providers\n\n[providers]\nlegacy = legacy\n\n[legacy]\nactivate = 1\n"))
			}}),
		op(61, "preload", 2, env, v("preload", "missing", "LD_PRELOAD", "/usr/local/lib/libjemalloc.so.2")),
		op(0, "bash-hook", 3, shell, Payload{Name: "strict", File: "bash", Lines: []string{export("BASH_ENV", "/etc/bash.strict")}, More: func(g *Ground) forge.Delta {
			return g.Write("/etc/bash.strict", []byte("set -euo pipefail\nshopt -s failglob\n"))
		}}),
		op(0, "make-flags", 3, env, v("make", "dry", "MAKEFLAGS", "n"), v("make", "old", "MAKEFLAGS", "--output-sync=fast"), v("make", "question", "MAKEFLAGS", "q")),
		sessionCarried(Operator{Name: "session-library-path", Number: 53, Ecosystem: Native, Family: Session, Realism: 4, Hint: "where libraries are looked for",
			Masked: "libraries that nothing of the suite needs"}, staleLibraries),
	}
	for i := range all {
		if all[i].Masked == "" && slices.Contains([]string{"session-proxy", "session-certificates", "session-posix-tools", "session-build-time",
			"session-colour-forced", "session-terminal-width", "session-options-strict", "session-separator", "session-crypto-config", "session-time-zone", "session-preload", "session-cd-path"}, all[i].Name) {
			all[i].Masked = "only tests that look at it see it"
		}
	}
	return append(all, shims(), toolLinks(), namesOrder(), localtime(), portTaken(), staleLock())
}

func sessionCarried(o Operator, payloads func(g *Ground) []Payload) Operator {
	return chosen(o, func(g *Ground) []choice {
		var all []choice
		for _, p := range payloads(g) {
			if len(p.Lines) == 0 {
				continue
			}
			all = append(all, g.carried(p)...)
		}
		return all
	})
}

// suiteTools are programs that suites' commands begin with.
func suiteTools(g *Ground) []string {
	var all []string
	for _, t := range []string{"python", "python3", "pytest", "node", "npm", "npx", "yarn", "pnpm", "go", "cargo", "mvn", "gradle", "java", "javac", "cmake", "ctest",
		"make", "ninja", "meson", "prove", "perl", "ruby", "bundle", "git", "gcc", "cc", "php", "bats"} {
		if g.Runs(t) {
			all = append(all, t)
		}
	}
	return all
}

// shims put the wrapper of a version manager before a program: what it would
// start is not there.
func shims() Operator {
	o := Operator{Name: "session-tool-shim", Number: 83, Ecosystem: Any, Family: Config, Realism: 5, Hint: "which program a name stands for",
		Masked: "commands that name a program by its path"}
	text := func(tool, manager, version string) string {
		if manager == "asdf" {
			return fmt.Sprintf("#!/bin/sh\n# asdf-plugin: %[1]s %[2]s\nexec \"/opt/asdf/installs/%[1]s/%[2]s/bin/%[1]s\" \"$@\"\n", tool, version)
		}
		return fmt.Sprintf("#!/bin/sh\nset -e\nversion=%[2]s\nprefix=/opt/%[1]senv/versions/$version\nif [ ! -x \"$prefix/bin/%[1]s\" ]; then\n  echo \"%[1]senv: version '$version' is not installed (set by /opt/%[1]senv/version)\" >&2\n  exit 127\nfi\nexec \"$prefix/bin/%[1]s\" \"$@\"\n", tool, version)
	}
	return chosen(o, func(g *Ground) []choice {
		var all []choice
		for _, tool := range suiteTools(g) {
			if at := wrapperOf(g, Payload{Tool: tool}); at != "" {
				all = append(all, choice{Site{Path: at, What: tool}, g.program(at, text(tool, "asdf", retired(tool)))})
			}
			dir := "/opt/" + tool + "env/shims"
			if g.Has(dir) {
				continue
			}
			all = append(all, g.carried(Payload{Name: tool, File: tool + "env", Lines: []string{fmt.Sprintf(`export PATH="%s:$PATH"`, dir)},
				More: func(g *Ground) forge.Delta { return g.Program(dir+"/"+tool, []byte(text(tool, "env", retired(tool)))) }})...)
		}
		return all
	})
}

// retired is a version of a tool that machines had once.
func retired(tool string) string {
	switch strings.TrimRight(tool, "3") {
	case "python", "pip", "pytest":
		return "3.7.17"
	case "node", "npm", "npx":
		return "14.21.3"
	case "go":
		return "1.17.13"
	case "cargo", "rustc":
		return "1.58.1"
	case "java", "javac", "mvn":
		return "8.0.352"
	case "cmake", "ctest":
		return "3.10.3"
	}
	return "1.13.4"
}

// toolLinks make the name of a program lead to a version that was removed.
func toolLinks() Operator {
	o := Operator{Name: "session-tool-link", Number: 84, Ecosystem: Any, Family: Config, Realism: 5, Hint: "which program a name stands for",
		Masked: "the same name stands further on in PATH"}
	return chosen(o, func(g *Ground) []choice {
		var all []choice
		for _, tool := range suiteTools(g) {
			at := g.Which(tool)
			e, _ := g.Entry(at)
			if e.Link == "" || !g.Ours(at) {
				continue
			}
			for strings.HasPrefix(e.Link, "/etc/alternatives/") {
				next, ok := g.Entry(e.Link)
				if !ok || next.Link == "" {
					break
				}
				at, e = e.Link, next
			}
			all = append(all, choice{Site{Path: at, What: tool}, g.relink(at, older(e.Link))})
		}
		return all
	})
}

// older is a path with another version in it.
func older(target string) string {
	at := regexp.MustCompile(`\d+`).FindAllStringIndex(target, -1)
	if len(at) == 0 {
		return target + "-2.1"
	}
	i := at[len(at)-1]
	n := 0
	_, _ = fmt.Sscan(target[i[0]:i[1]], &n) // digits, by the expression
	switch {
	case n > 3:
		n -= 3
	case n > 0:
		n--
	default:
		n = 9
	}
	return fmt.Sprintf("%s%d%s", target[:i[0]], n, target[i[1]:])
}

// namesOrder takes /etc/hosts out of where names are looked up.
func namesOrder() Operator {
	o := Operator{Name: "session-name-lookup", Number: 86, Ecosystem: Any, Family: Session, Realism: 4, Hint: "how names of machines are looked up",
		Masked: "only tests that connect by a name see it"}
	return rewritten(o, func(*Ground) []string { return []string{"/etc/nsswitch.conf"} }, func(_ *Ground, _, text string) []rewrite {
		line := regexp.MustCompile(`(?m)^hosts:.*$`)
		return []rewrite{{what: "dns only", text: line.ReplaceAllString(text, "hosts:          dns")},
			{what: "not found", text: line.ReplaceAllString(text, "hosts:          mymachines [NOTFOUND=return] files dns")}}
	})
}

// localtime makes the machine's zone another.
func localtime() Operator {
	o := Operator{Name: "session-localtime", Number: 79, Ecosystem: Any, Family: Session, Realism: 4, Hint: "what the machine believes about time",
		Masked: "only tests that look at local time see it"}
	return chosen(o, func(g *Ground) []choice {
		if _, ok := g.Entry("/etc/localtime"); !ok {
			return nil
		}
		return []choice{{Site{Path: "/etc/localtime", What: "Chatham"}, g.relink("/etc/localtime", "/usr/share/zoneinfo/Pacific/Chatham")}}
	})
}
