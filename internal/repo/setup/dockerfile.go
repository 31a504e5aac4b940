package setup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"assay/internal/repo"
)

// workdir is where every healthy image has its repository.
const workdir = "/app"

// profileFile sets the environment of whoever begins with ". /etc/profile".
const profileFile = "/etc/profile.d/project.sh"

// dockerfileText is a recipe as a Dockerfile, whose build context is the
// repository's tree. Steps that projects share come first. when is the time of
// the one commit.
func (r *Recipe) dockerfileText(base string, when time.Time) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Made by assay repo setup from recipe.toml; the build context is the repository.")
	p("FROM %s", base)
	p("USER root")
	shared, own := sharedPackages(r.Packages)
	for _, list := range [][]string{shared, own, r.More} {
		if len(list) > 0 {
			p("RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends %s && rm -rf /var/lib/apt/lists/*", strings.Join(list, " "))
		}
	}
	for _, l := range r.Toolchain {
		p("RUN %s", l)
	}
	p("COPY <<\"PROFILE\" %s", profileFile)
	b.WriteString(profile(r.Env))
	p("PROFILE")
	if len(r.Services) > 0 {
		p("COPY <<\"SERVICES\" %s", servicesFile)
		for _, s := range r.Services {
			p("{ %s; } >>%s 2>&1 </dev/null", s, servicesLog)
		}
		p("SERVICES")
	}
	p("COPY . %s/", workdir)
	p("WORKDIR %s", workdir)
	p("RUN %s", commitTree(when))
	mounts := ""
	for _, id := range r.SSH {
		mounts += "--mount=type=ssh,id=" + id + " "
	}
	for _, id := range r.Secrets {
		mounts += "--mount=type=secret,id=" + id + " "
	}
	for _, l := range r.Install {
		p("RUN %s. /etc/profile && cd %s && %s", mounts, repo.Quote(joinSub(r.Subdir)), l)
	}
	p("RUN %s", settleTree(r.Products, when))
	if len(r.Offline) > 0 {
		p("COPY <<\"PROFILE\" %s", profileFile)
		env := maps.Clone(r.Env)
		maps.Copy(env, r.Offline)
		b.WriteString(profile(env))
		p("PROFILE")
	}
	return b.String()
}

func joinSub(sub string) string {
	if sub == "" {
		return workdir
	}
	return workdir + "/" + sub
}

// sharedPackages are those of the common table, in its order, so that every
// project has one layer of them.
func sharedPackages(all []string) (shared, own []string) {
	_, c, err := ecosystems()
	if err != nil {
		return nil, all
	}
	for _, p := range c.Packages {
		if slices.Contains(all, p) {
			shared = append(shared, p)
		}
	}
	for _, p := range all {
		if !slices.Contains(c.Packages, p) {
			own = append(own, p)
		}
	}
	return shared, own
}

func profile(env map[string]string) string {
	var b strings.Builder
	b.WriteString("# The environment of this repository's builds and tests.\n")
	for _, k := range slices.Sorted(maps.Keys(env)) {
		// "$PATH" and the like go on meaning what they do; the rest is text.
		v := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`").Replace(env[k])
		fmt.Fprintf(&b, "export %s=\"%s\"\n", k, v)
	}
	return b.String()
}

// gitEnv makes commits equal wherever they are made.
func gitEnv(when time.Time) string {
	if when.IsZero() {
		when = time.Unix(946684800, 0)
	}
	d := fmt.Sprintf("'%d +0000'", when.Unix())
	return "export GIT_AUTHOR_NAME=upstream GIT_AUTHOR_EMAIL=upstream@localhost GIT_COMMITTER_NAME=upstream GIT_COMMITTER_EMAIL=upstream@localhost " +
		"GIT_AUTHOR_DATE=" + d + " GIT_COMMITTER_DATE=" + d + " GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null"
}

// git never packs, logs or runs hooks here.
const gitCommand = "git -c core.hooksPath=/dev/null -c gc.auto=0 -c core.logAllRefUpdates=false -c core.safecrlf=false -c core.bigFileThreshold=2g"

// commitTree makes the tree one orphan commit whose objects are all loose.
func commitTree(when time.Time) string {
	return strings.Join([]string{
		// An image that was given may have no profile, or none that reads ours.
		"{ grep -qs profile.d /etc/profile || echo 'for f in /etc/profile.d/*.sh; do . \"$f\"; done' >> /etc/profile; }",
		gitEnv(when),
		"rm -rf .git",
		"git init -q --template= -b main .",
		"git config gc.auto 0",
		gitCommand + " add -A -f .",
		gitCommand + " commit -q --no-verify --allow-empty -m 'The repository'",
		"rm -rf .git/COMMIT_EDITMSG .git/logs .git/branches .git/hooks",
	}, " && ")
}

// settleTree makes the tree clean again after the build: what builds leave is
// ignored, and tracked files that they rewrite are taken into the commit.
func settleTree(products []string, when time.Time) string {
	words := make([]string, len(products))
	for i, p := range products {
		words[i] = repo.Quote(p)
	}
	return strings.Join([]string{
		"cd " + workdir,
		gitEnv(when),
		"find . -name __pycache__ -type d -prune -exec rm -rf {} + ",
		"mkdir -p .git/info",
		"printf '%s\\n' " + strings.Join(append([]string{"'# What builds leave.'"}, words...), " ") + " > .git/info/exclude",
		"git ls-files --others --exclude-standard --directory | grep -v '^\"' | sed -e 's/[][*?!# \\\\]/\\\\&/g' -e 's,^,/,' > /tmp/left",
		"cat /tmp/left >> .git/info/exclude",
		"rm /tmp/left",
		gitCommand + " add -u .",
		"{ git diff --cached --quiet || " + gitCommand + " commit -q --no-verify --amend --allow-empty --no-edit; }",
		"git prune --expire=now",
		"rm -rf .git/COMMIT_EDITMSG .git/ORIG_HEAD .git/logs .git/branches .git/hooks",
		"git status --porcelain | head -20",
	}, " && ")
}
