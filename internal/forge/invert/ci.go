package invert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
)

// ci are faults that pipelines bring: files of credentials, restored caches,
// what a merge or a checkout left.
func ci() []Operator {
	op := func(number int, name string, e Ecosystem, f Family, realism int, hint string) Operator {
		return Operator{Name: name, Number: number, Ecosystem: e, Family: f, Realism: realism, Hint: hint}
	}
	credentials, cached := "the credentials that programs find", "what was kept of earlier builds"
	leaked := sessionCarried(op(0, "ci-variables", Any, Session, 4, "what programs believe about where they run"), func(*Ground) []Payload {
		return []Payload{{Name: "actions", File: "ci", Lines: []string{export("CI", "true"), export("GITHUB_ACTIONS", "true"), export("GITHUB_WORKSPACE", "/home/runner/work")}},
			{Name: "gitlab", File: "ci", Lines: []string{export("CI", "1"), export("GITLAB_CI", "true"), export("CI_PROJECT_DIR", "/builds/project")}}}
	})
	leaked.Masked = "only programs that ask whether a pipeline runs them see it"
	return []Operator{
		leaked,
		chosen(op(100, "lfs-pointer", Git, FileState, 5, "what a checkout left"), lfsPointer),
		chosen(op(100, "submodule-empty", Git, FileState, 5, "what a checkout left"), emptySubmodule),
		rewritten(op(0, "ci-config", Any, Config, 4, "the pipeline's configuration"), pipelines, pipelineDrift),
		rewritten(op(0, "credential-netrc", Any, Config, 4, credentials), homeFiles(".netrc"), netrcDrift),
		rewritten(op(0, "credential-ssh-config", Any, Config, 5, credentials), homeFiles(".ssh/config"), sshDrift),
		chosen(op(0, "credential-mode", Any, FileState, 4, credentials), credentialModes),
		rewritten(op(0, "credential-profile", Any, Config, 4, credentials), homeFiles(".aws/credentials", ".aws/config", ".pgpass", ".pg_service.conf", ".my.cnf"), profileDrift),
		rewritten(op(0, "credential-token", Any, Config, 5, credentials), tokens, tokenDrift),
		rewritten(op(0, "credential-pem", Any, FileState, 4, credentials), pems, pemDrift),
		chosen(op(0, "go-build-cache", Go, FileState, 3, cached), goCacheCorrupt),
		chosen(op(0, "java-classes-cut", Java, FileState, 4, cached), classesCut),
		chosen(op(0, "cargo-cache-cut", Rust, FileState, 4, cached), cargoCacheCut),
	}
}

// lfsPointer leaves the pointer of a large file in its place. The content is
// in the store that git's settings name.
func lfsPointer(g *Ground) []choice {
	kinds := []string{".bin", ".dat", ".png", ".jpg", ".gz", ".zip", ".db", ".sqlite", ".sqlite3", ".ttf", ".wasm", ".parquet", ".csv", ".onnx", ".pb", ".jar", ".xml.gz", ".json"}
	var all []choice
	for _, p := range g.Sources(kinds...) {
		n := path.Base(p)
		e, _ := g.Entry(p)
		if e.Size < 16 || e.Size > maxPatched || slices.Contains([]string{"package.json", "package-lock.json", "tsconfig.json", "composer.json"}, n) || strings.HasPrefix(n, ".") {
			continue
		}
		all = append(all, choice{Site{Path: p, What: "pointer"}, func(*rand.Rand) (forge.Delta, error) {
			b, ok := g.Bytes(p)
			if !ok {
				return nil, fmt.Errorf("lfs: %s is too large", p)
			}
			sum := sha256.Sum256(b)
			id := hex.EncodeToString(sum[:])
			store := "/var/lib/git-lfs"
			was, _ := g.Text("/etc/gitconfig")
			d := g.Write(path.Join(store, "objects", id[:2], id[2:4], id), b)
			d = append(d, g.Write("/etc/gitconfig", []byte(gitWith(was, "lfs", "storage", store)))...)
			return append(d, g.Write(p, fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", id, len(b)))...), nil
		}})
	}
	return all
}

// emptySubmodule leaves the bare directory of a submodule, as a clone without
// --recurse-submodules does. Its content lies in another checkout.
func emptySubmodule(g *Ground) []choice {
	text, _ := g.Text(path.Join(g.Env.Workdir, ".gitmodules"))
	var all []choice
	for _, m := range regexp.MustCompile(`(?m)^\s*path\s*=\s*(\S+)\s*$`).FindAllStringSubmatch(text, maxChoices) {
		dir := path.Join(g.Env.Workdir, path.Join("/", m[1]))
		inside := g.List(dir)
		if !g.IsDir(dir) || len(inside) == 0 || !g.Ours(dir) || g.sizeOf(dir) > maxMoved {
			continue
		}
		all = append(all, choice{Site{Path: dir, What: "empty"}, func(*rand.Rand) (forge.Delta, error) {
			var d forge.Delta
			for _, e := range inside {
				more, err := g.Move("/"+e.Path, path.Join("/var/cache/checkouts", path.Base(dir), path.Base(e.Path)))
				if err != nil {
					return nil, err
				}
				d = merge(d, more)
			}
			return d, nil
		}})
	}
	return all
}

// pipelines are configurations that the suite itself reads: something of the
// project names them.
func pipelines(g *Ground) []string {
	var there []string
	for _, n := range []string{".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml", ".circleci/config.yml", "Jenkinsfile", ".env.ci", "ci.env", "ci/env.sh", "ci/settings.sh", ".ci/env", "tox.ini", "noxfile.py", "justfile", "Taskfile.yml"} {
		if p := path.Join(g.Dir(), n); g.isFile(p) {
			there = append(there, p)
		}
	}
	for _, e := range g.List(path.Join(g.Dir(), ".github/workflows")) {
		there = append(there, "/"+e.Path)
	}
	text := g.Commands()
	for _, p := range g.Everything(".sh", ".py", "Makefile", ".js", ".ts", ".go", ".rs", ".pl", ".rb") {
		if t, ok := g.Text(p); ok && len(text) < 8<<20 {
			text += t
		}
	}
	return slices.DeleteFunc(there, func(p string) bool { return !strings.Contains(text, path.Base(p)) })
}

func pipelineDrift(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for i, m := range regexp.MustCompile(`(?m)^(\s*(?:export\s+|-\s+)?"?[A-Za-z_][\w-]*"?\s*[:=]\s*)("?)([^\s"#][^"#\n]*)("?)[ \t]*$`).FindAllStringSubmatch(text, -1) {
		if i >= 12 {
			break
		}
		key := strings.Trim(strings.TrimSpace(m[1]), `":= -`)
		to := "legacy-" + m[3]
		if regexp.MustCompile(`\d`).MatchString(m[3]) {
			to = bump(m[3])
		}
		all = append(all, rewrite{what: key, text: strings.Replace(text, m[0], m[1]+m[2]+to+m[4], 1)},
			rewrite{what: key + " renamed", text: strings.Replace(text, m[0], strings.Replace(m[0], key, key+"_OLD", 1), 1)})
	}
	return all
}

// goCacheCorrupt spoils what a restored build cache holds of the project's
// packages. Go looks at the size alone when it takes such a file.
func goCacheCorrupt(g *Ground) []choice {
	dir, ok := g.exported("GOCACHE")
	if !ok || !path.IsAbs(dir) {
		dir = path.Join(g.Home(), ".cache/go-build")
	}
	mod, _ := g.Text(g.near("go.mod"))
	name := regexp.MustCompile(`(?m)^module\s+(\S+)`).FindStringSubmatch(mod)
	if name == nil {
		return nil
	}
	var all []choice
	_ = g.Tree.Walk(dir, each(func(p string, size int64) {
		if !strings.HasSuffix(p, "-d") || size < 2048 || size > 192<<10 || len(all) >= maxChoices {
			return
		}
		b, ok := g.Bytes(p)
		if !ok || !strings.HasPrefix(string(b[:8]), "!<arch>") || !strings.Contains(string(b), name[1]) {
			return
		}
		all = append(all, choice{Site{Path: p, What: "zeroed"}, func(*rand.Rand) (forge.Delta, error) {
			next := slices.Clone(b)
			clear(next[len(next)/4 : len(next)/4+min(1024, len(next)/2)])
			return g.pinned(p, next), nil
		}})
	}))
	return all
}

// cut is a site where only the beginning of a file is left; its time stays.
func (g *Ground) cut(p string, keep int64) choice {
	return choice{Site{Path: p, What: "cut"}, func(*rand.Rand) (forge.Delta, error) {
		b, ok := g.Bytes(p)
		if !ok {
			return nil, fmt.Errorf("cut: %s is too large", p)
		}
		return g.pinned(p, b[:min(keep, int64(len(b)))]), nil
	}}
}

func classesCut(g *Ground) []choice {
	var all []choice
	_ = g.Tree.Walk(g.Dir(), each(func(p string, size int64) {
		if strings.HasSuffix(p, ".class") && size > 64 && !strings.Contains(p, "test") && g.Ours(p) && len(all) < 400 {
			all = append(all, g.cut(p, size/2))
		}
	}))
	return all
}

func cargoCacheCut(g *Ground) []choice {
	var all []choice
	_ = g.Tree.Walk(g.Dir(), each(func(p string, size int64) {
		if (strings.HasSuffix(p, ".rlib") || strings.HasSuffix(p, ".rmeta")) && size > 512 && size <= maxBinary && g.Ours(p) && len(all) < 400 {
			all = append(all, g.cut(p, min(size/2, 16<<10)))
		}
	}))
	return all
}
