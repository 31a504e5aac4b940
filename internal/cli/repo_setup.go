package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/image/bootstrap"
	"assay/internal/image/dockerfile"
	"assay/internal/mirrors"
	"assay/internal/repo"
	"assay/internal/repo/setup"
	"assay/internal/sandbox"
)

type repoSetupCmd struct {
	Source       string        `arg:"" name:"path|url" help:"A directory, a bare repository, or a URL of git."`
	Out          string        `short:"o" placeholder:"DIR" help:"Where recipe.toml, Dockerfile, environment.json and setup.json go; default forge-NAME. A recipe that lies there is followed."`
	Name         string        `placeholder:"NAME" help:"Name of the environment; default: the repository's."`
	Branch       string        `placeholder:"NAME" help:"Branch or tag of a URL; default: its HEAD."`
	At           string        `placeholder:"COMMIT" help:"Take the files of this commit or tag instead of the work tree: an older ground for 'forge history'."`
	Image        string        `placeholder:"NAME" help:"Stand on this image of the store instead of a toolchain of ours."`
	Dockerfile   string        `placeholder:"FILE" help:"Stand on what this Dockerfile of the repository builds."`
	Subdir       string        `placeholder:"DIR" help:"Of a monorepo: the part that is built and tested."`
	Test         []string      `placeholder:"CMD" sep:"none" help:"Command that runs tests, in the repository; repeatable. Known runners are made to leave a report."`
	Service      []string      `placeholder:"CMD" sep:"none" help:"Command that starts, inside of the sandbox, what the tests need; repeatable."`
	Runs         int           `short:"k" default:"3" placeholder:"N" help:"Runs of the suite that stability rests on."`
	TestTimeout  time.Duration `default:"10m" placeholder:"DURATION" help:"End of one run of the suite."`
	BuildTimeout time.Duration `default:"20m" placeholder:"DURATION" help:"End of one command that installs."`
	Budget       time.Duration `default:"1h" placeholder:"DURATION" help:"End of everything."`
	Attempts     int           `default:"12" placeholder:"N" help:"Alternatives that are tried at most."`
	Disk         int64         `placeholder:"MIB" help:"What one command that installs, and one run of the suite, may write; default 1024. What does not fit into memory lies on disk, where nothing holds the limit."`
	MaxFiles     int           `default:"50000" placeholder:"N" help:"Files of the repository at most."`
	Coverage     bool          `default:"true" negatable:"" help:"Find out which files each test covers."`
	Fresh        bool          `help:"Forget the recipe that lies in DIR."`
	AllowHost    []string      `placeholder:"HOST" help:"Let installing commands reach a host besides this machine's package mirrors; as of assay image build."`
	UID          string        `name:"uid" enum:",single,subid,root" default:"" help:"User ids of builds and tests, as of assay image build."`
	Secret       []string      `placeholder:"id=…,src=…" sep:"none" help:"A secret that installing commands see below /run/secrets: id=ID,src=FILE or id=ID,env=NAME; in no layer."`
	SSH          []string      `name:"ssh" placeholder:"ID[=SOCKET]" sep:"none" help:"An ssh agent for installing commands; default the socket of SSH_AUTH_SOCK."`
}

func (repoSetupCmd) Help() string {
	return `Makes a repository ready for the forge: copies or clones it, recognises language, build system, test runner and versions, builds
a healthy image forge/NAME:TAG in which it lies at /app as one commit, and runs its suite without network until it is
known which tests are stable. What the repository or the flags name (an image, a Dockerfile, a devcontainer.json) is tried
first. When a step fails alternatives are tried; all of them are in setup.json. The decisions are in recipe.toml, which may
be edited: with the same -o it is followed. The host's package mirrors are used unless --no-inherit-mirrors is given.

Examples:
  assay repo setup ../my-project
  assay repo setup https://git.example/team/project.git --branch v2 -o forge-project
  assay repo setup ../my-project --at v1.4 -o env/v1.4
  assay repo setup . --subdir services/api --service 'service postgresql start' --test 'pytest -q tests'
  assay repo setup . --ssh default --secret id=npmrc,src=$HOME/.npmrc
  assay image export forge/my-project:TAG -o - | docker load

Exit status: 0, 1 the repository does not build or has no test that passes, 2 usage, 130 interrupted.`
}

func (c *repoSetupCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	cfg, done, err := c.config(ctx, a, g)
	if err != nil {
		return err
	}
	defer done()
	env, err := setup.Run(ctx, cfg)
	if err != nil {
		var f *setup.Failure
		if g.JSON && errors.As(err, &f) {
			return errors.Join(a.emit("repo.setup.failure", f), err)
		}
		return err
	}
	if g.JSON {
		return a.emit("repo.setup", env)
	}
	n := map[repo.Stability]int{}
	for _, t := range env.Suite.Tests {
		n[t.Stability]++
	}
	fmt.Fprintf(a.Stdout, "%s  %s, %s: %d tests stable, %d flaky, %d failing, %d skipped; %.1f s a run\n", env.Image, strings.Join(env.Languages, ", "), env.System,
		n[repo.Stable], n[repo.Flaky], n[repo.Failing], n[repo.Skipped], env.Suite.Millis/1000)
	for _, f := range env.Suite.Findings {
		a.say("%s", f)
	}
	a.say("wrote %s", filepath.Join(cfg.Out, repo.EnvironmentFile))
	return nil
}

// config wires a setup; done closes what it opened.
func (c *repoSetupCmd) config(ctx *boundCtx, a *app, g *grammar) (cfg setup.Config, done func(), err error) {
	if c.Runs < 1 || c.Attempts < 1 || c.MaxFiles < 1 || c.Disk < 0 || c.Disk > 1<<30 {
		return cfg, nil, usagef("--runs, --attempts and --max-files are at least 1, and --disk is a number of MiB")
	}
	if c.Image != "" && c.Dockerfile != "" {
		return cfg, nil, usagef("--image and --dockerfile: one of them")
	}
	shared := dockerfile.Options{Secrets: map[string][]byte{}, SSH: map[string]image.HostPath{}}
	keys := imageBuildCmd{Secret: c.Secret, SSH: c.SSH}
	if err := keys.secrets(a, &shared); err != nil {
		return cfg, nil, err
	}
	if g.InheritMirrors == nil {
		yes := true
		g.InheritMirrors = &yes
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return cfg, nil, err
	}
	b, err := a.builder(g, r, "", c.AllowHost)
	if err != nil {
		return cfg, nil, errors.Join(err, r.Close())
	}
	tmp, err := r.images.Private()
	if err != nil {
		return cfg, nil, errors.Join(err, r.Close())
	}
	done = func() { tmp.Close(); r.Close() }
	out := c.Out
	if out == "" {
		out = "forge-" + setup.NameOf(c.Source)
		if c.Name != "" {
			out = "forge-" + setup.NameOf(c.Name)
		}
	}
	uid := sandbox.UIDMode(c.UID)
	if m := r.backend.Capabilities().UIDModes; uid == "" && len(m) > 0 {
		uid = m[0]
	}
	cfg = setup.Config{Source: c.Source, Out: out, Name: c.Name, Branch: c.Branch, At: c.At, GitEnv: a.gitEnv(), Caps: setup.Caps{Files: c.MaxFiles},
		Image: c.Image, Dockerfile: c.Dockerfile, Subdir: filepath.ToSlash(strings.Trim(c.Subdir, "/")), Tests: c.Test, Services: c.Service, Fresh: c.Fresh,
		Runs: c.Runs, Timeout: c.TestTimeout, BuildTimeout: c.BuildTimeout, Budget: c.Budget, Attempts: c.Attempts, Cover: c.Coverage,
		Images: r.images, Resolve: notHost(r.resolve), Backend: r.backend, UID: uid, Limits: sandbox.Limits{DiskBytes: c.Disk << 20}, Say: a.say, Temp: string(tmp.Path(""))}
	for id := range shared.Secrets {
		cfg.Secrets = append(cfg.Secrets, id)
	}
	for id := range shared.SSH {
		cfg.SSH = append(cfg.SSH, id)
	}
	cfg.Build = func(ctx context.Context, o dockerfile.Options) (image.Image, error) {
		o.Secrets, o.SSH = shared.Secrets, shared.SSH
		return b.build(ctx, o)
	}
	cfg.Base = func(ctx context.Context, suite string) error { return a.debian(ctx, g, r, suite) }
	return cfg, done, nil
}

// notHost refuses the pseudo-image of this machine: a healthy image is one that
// others can have.
func notHost(resolve func(context.Context, string) (image.Image, error)) func(context.Context, string) (image.Image, error) {
	return func(ctx context.Context, name string) (image.Image, error) {
		if name == image.HostName {
			return image.Image{}, errors.New("a healthy image does not stand on \"host\": nobody else could have it; name another with --image or in the recipe's base")
		}
		return resolve(ctx, name)
	}
}

// debian makes a Debian base as assay image bootstrap does.
func (a *app) debian(ctx context.Context, g *grammar, r *rooms, suite string) error {
	if g.Offline {
		return fmt.Errorf("debian:%s is not in the store, and --offline fetches nothing", suite)
	}
	dir, err := a.storeDir(g)
	if err != nil {
		return err
	}
	settings, err := mirrors.Read(a.machine())
	if err != nil {
		return err
	}
	host, err := r.host()
	if err != nil {
		return err
	}
	_, _, err = bootstrap.Make(ctx, bootstrap.Options{Store: r.images, Backend: r.backend, Host: host, Cache: filepath.Join(dir, "bootstrap"), Distro: "debian",
		Suite: suite, Through: settings.AptMirror(bootstrap.PublicMirror("debian"))})
	return err
}

// gitEnv is what git needs of this process to reach a server: proxies,
// certificates, the ssh agent, and a home for .netrc and known hosts.
func (a *app) gitEnv() []string {
	var out []string
	for _, k := range []string{"HOME", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY",
		"GIT_SSL_CAINFO", "SSL_CERT_FILE", "CURL_CA_BUNDLE"} {
		if v, ok := a.Env(k); ok {
			out = append(out, k+"="+v)
		}
	}
	return out
}
