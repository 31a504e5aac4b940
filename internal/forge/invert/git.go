package invert

import (
	"math/rand/v2"
	"path"
	"regexp"
	"strings"

	"assay/internal/forge"
)

// git are faults of git's settings and of what it finds in a session, for
// suites that run git.
func git() []Operator {
	op := func(number int, name string, f Family, realism int, list ...gitSetting) Operator {
		return gitConfigured(Operator{Name: "git-" + name, Number: number, Ecosystem: Git, Family: f, Realism: realism,
			Hint: "the settings that git starts with"}, list)
	}
	session := func(number int, name string, realism int, p ...Payload) Operator {
		return gitCarried(Operator{Name: "git-" + name, Number: number, Ecosystem: Git, Family: Session, Realism: realism,
			Hint: "what git finds in the session"}, p)
	}
	return []Operator{
		op(95, "hook-failing", Config, 4, gitSetting{what: "core.hooksPath", section: "core", key: "hooksPath", value: "/etc/git/hooks",
			program: "/etc/git/hooks/pre-commit", text: "#!/bin/sh\nexec pre-commit run --hook-stage pre-commit\n"},
			gitSetting{what: "init.templateDir", section: "init", key: "templateDir", value: "/etc/git/template",
				program: "/etc/git/template/hooks/pre-commit", text: "#!/bin/sh\n. \"$HOME/.config/hooks/lint.sh\"\nlint_staged\n"}),
		op(96, "hooks-checkout", Config, 2, gitSetting{what: "post-checkout", section: "core", key: "hooksPath", value: "/opt/hooks",
			program: "/opt/hooks/post-checkout", text: "#!/bin/sh\necho 'git-lfs was not found on your path' >&2\nexit 2\n"}),
		op(97, "signing-forced", Config, 4, gitSetting{what: "commits", section: "commit", key: "gpgSign", value: "true"},
			gitSetting{what: "tags", section: "tag", key: "gpgSign", value: "true"}),
		op(99, "line-endings", Config, 4, gitSetting{what: "autocrlf", section: "core", key: "autocrlf", value: "true"},
			gitSetting{what: "eol", section: "core", key: "attributesFile", value: "/etc/gitattributes.common", program: "/etc/gitattributes.common", text: "* text eol=crlf\n"}),
		op(0, "default-branch", Config, 5, gitSetting{what: "trunk", section: "init", key: "defaultBranch", value: "trunk"},
			gitSetting{what: "develop", section: "init", key: "defaultBranch", value: "develop"}),
		op(0, "colour-always", Config, 5, gitSetting{what: "ui", section: "color", key: "ui", value: "always"}),
		op(0, "diff-prefix", Config, 5, gitSetting{what: "noprefix", section: "diff", key: "noprefix", value: "true"},
			gitSetting{what: "mnemonic", section: "diff", key: "mnemonicPrefix", value: "true"},
			gitSetting{what: "external", section: "diff", key: "external", value: "difft"}),
		op(0, "ignores", Config, 5, gitSetting{what: "global", section: "core", key: "excludesFile", value: "/etc/gitignore", program: "/etc/gitignore",
			text: "*.log\n*.txt\n*.tmp\nbuild/\ndata/\n*.dat\n*.gpg\n"}),
		op(0, "protocol-file", Config, 4, gitSetting{what: "never", section: "protocol \"file\"", key: "allow", value: "never"}),
		op(0, "instead-of", Config, 4, gitSetting{what: "file", section: "url \"ssh://git@git.example.com/\"", key: "insteadOf", value: "/"}),
		op(0, "config-malformed", Config, 5, gitSetting{what: "unclosed", section: "alias", key: "lg", value: "\"log --oneline --graph"},
			gitSetting{what: "bad value", section: "core", key: "bare", value: "no thanks"}),
		op(0, "object-format", Config, 3, gitSetting{what: "log dates", section: "log", key: "date", value: "relative"},
			gitSetting{what: "short status", section: "status", key: "short", value: "true"},
			gitSetting{what: "pretty", section: "format", key: "pretty", value: "oneline"}),
		op(0, "pull-only", Config, 3, gitSetting{what: "merge", section: "merge", key: "ff", value: "only"},
			gitSetting{what: "bare", section: "safe", key: "bareRepository", value: "explicit"}),
		session(98, "directory-leaked", 4,
			Payload{Name: "dir", File: "git", Lines: []string{export("GIT_DIR", "/srv/repo.git")}, Tool: "git"},
			Payload{Name: "index", File: "git", Lines: []string{export("GIT_INDEX_FILE", "/srv/index.tmp/index")}, Tool: "git"},
			Payload{Name: "tree", File: "git", Lines: []string{export("GIT_DIR", "/srv/repo.git"), export("GIT_WORK_TREE", "/srv/work")}, Tool: "git"}),
		session(0, "exec-path", 3, Payload{Name: "exec", File: "git", Lines: []string{export("GIT_EXEC_PATH", "/opt/git-2.17/libexec/git-core")}, Tool: "git"}),
		session(0, "identity-variables", 4, Payload{Name: "date", File: "git", Lines: []string{export("GIT_AUTHOR_DATE", "yesterday noon CEST")}, Tool: "git"},
			Payload{Name: "name", File: "git", Lines: []string{"export GIT_COMMITTER_NAME=", "export GIT_AUTHOR_NAME="}, Tool: "git"}),
		session(0, "config-variable", 4, Payload{Name: "global", File: "git", Lines: []string{export("GIT_CONFIG_GLOBAL", "/etc/git/ci.gitconfig"), export("GIT_CONFIG_COUNT", "1")}, Tool: "git"}),
		rewritten(Operator{Name: "git-identity", Ecosystem: Git, Family: Config, Realism: 5, Hint: "the settings that git starts with"},
			func(g *Ground) []string { return []string{path.Join(g.Home(), ".gitconfig"), "/etc/gitconfig"} }, gitIdentity),
		gitLock(),
	}
}

// gitUsed reports whether the tests run git.
func gitUsed(g *Ground) bool {
	if g.Which("git") == "" && g.Has("/usr/bin/sh") { // not where /usr is another's
		return false
	}
	call := regexp.MustCompile(`(?m)(^|[\s"'(;|&\x60\[])git["',]?\s+["']?(init|commit|add|clone|log|diff|apply|status|config|checkout|tag|rev-parse|ls-files|submodule|stash|merge|show)\b`)
	if call.MatchString(g.Commands()) {
		return true
	}
	for i, p := range g.Everything(".sh", ".py", ".go", ".rs", ".js", ".ts", ".rb", ".t", ".pl", ".java", ".bats", "Makefile") {
		if text, ok := g.Text(p); ok && call.MatchString(text) {
			return true
		}
		if i > 2000 {
			break
		}
	}
	return false
}

// gitSetting is one key of git's settings, and a file that it names.
type gitSetting struct{ what, section, key, value, program, text string }

// gitConfigured makes an operator of settings, in the user's file and in the
// machine's.
func gitConfigured(o Operator, list []gitSetting) Operator {
	return chosen(o, func(g *Ground) []choice {
		if !gitUsed(g) {
			return nil
		}
		var all []choice
		for _, p := range []string{path.Join(g.Home(), ".gitconfig"), "/etc/gitconfig"} {
			was, ok := g.Text(p)
			if !ok && g.Has(p) || !g.Ours(p) {
				continue
			}
			for _, s := range list {
				if s.program == "" || !g.Has(s.program) {
					all = append(all, choice{Site{Path: p, What: s.what}, g.gitWrite(p, was, s)})
				}
			}
		}
		return all
	})
}

func (g *Ground) gitWrite(p, was string, s gitSetting) func(*rand.Rand) (forge.Delta, error) {
	return func(*rand.Rand) (forge.Delta, error) {
		var d forge.Delta
		switch {
		case strings.HasPrefix(s.text, "#!"):
			d = g.Program(s.program, []byte(s.text))
		case s.program != "":
			d = g.Write(s.program, []byte(s.text))
		}
		value := s.value
		if s.key == "templateDir" {
			value = path.Dir(path.Dir(s.program))
		}
		return append(d, g.Write(p, []byte(gitWith(was, s.section, s.key, value)))...), nil
	}
}

func gitCarried(o Operator, payloads []Payload) Operator {
	return chosen(o, func(g *Ground) []choice {
		if !gitUsed(g) {
			return nil
		}
		var all []choice
		for _, p := range payloads {
			all = append(all, g.carried(p)...)
		}
		return all
	})
}

// gitWith adds a key to a section, or a section to a file.
func gitWith(text, section, key, value string) string {
	line := "\t" + key + " = " + value + "\n"
	if at := regexp.MustCompile(`(?mi)^\[` + regexp.QuoteMeta(section) + `\][ \t]*\n`).FindStringIndex(text); at != nil {
		from, to := at[1], len(text)
		if next := strings.Index(text[from:], "\n["); next >= 0 {
			to = from + next + 1
		}
		own := without(text[from:to], regexp.MustCompile(`(?i)^\s*`+regexp.QuoteMeta(key)+`\s*=`))
		return text[:from] + line + own + text[to:]
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + "[" + section + "]\n" + line
}

// gitIdentity takes away whose commits they are.
func gitIdentity(_ *Ground, _, text string) []rewrite {
	email := regexp.MustCompile(`(?i)^\s*email\s*=`)
	if without(text, email) == text {
		return nil
	}
	return []rewrite{{what: "email", text: gitWith(without(text, email), "user", "useConfigOnly", "true")}}
}

// gitLock leaves the lock of a git that was killed.
func gitLock() Operator {
	o := Operator{Name: "git-lock-left", Number: 94, Ecosystem: Git, Family: Session, Realism: 5, Hint: "what a killed git left behind",
		Masked: "commands that write no index do not ask for its lock"}
	return chosen(o, func(g *Ground) []choice {
		if !gitUsed(g) {
			return nil
		}
		home := path.Join(g.Home(), ".gitconfig")
		var all []choice
		all = append(all, g.added(home+".lock", "config", "")...)
		if dir := path.Join(g.Env.Workdir, ".git"); g.IsDir(dir) {
			all = append(all, g.added(path.Join(dir, "index.lock"), "index", "")...)
		}
		return all
	})
}
