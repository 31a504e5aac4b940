package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/sandbox"
)

type imageBuildCmd struct {
	Path         string            `arg:"" help:"The build context, a directory."`
	File         string            `short:"f" placeholder:"FILE" help:"The Dockerfile; default PATH/Dockerfile."`
	Tag          string            `short:"t" placeholder:"NAME" help:"Name of the image."`
	Target       string            `placeholder:"STAGE" help:"Stage to build; default the last."`
	BuildArg     map[string]string `placeholder:"K=V" mapsep:"none" help:"Value of an ARG; may be repeated."`
	Secret       []string          `placeholder:"id=…,src=…" sep:"none" help:"A secret for RUN --mount=type=secret: id=ID,src=FILE or id=ID,env=NAME."`
	SSH          []string          `name:"ssh" placeholder:"ID[=SOCKET]" sep:"none" help:"An ssh agent for RUN --mount=type=ssh; default the socket of SSH_AUTH_SOCK."`
	BuildContext map[string]string `placeholder:"NAME=PATH" mapsep:"none" help:"A further tree for FROM and --from: a directory or docker-image://NAME."`
	NoCache      bool              `help:"Do every step anew."`
	Network      string            `enum:",none,allowlist,full" default:"" help:"What RUN can reach: none; allowlist (the default), the servers of this machine's own package managers and --allow-host; full."`
	UID          string            `name:"uid" enum:",single,subid,root" default:"" help:"User ids in RUN: single (the default), one id and faked owners; subid or root, all ids: USER is obeyed and owners are kept."`
	AllowHost    []string          `placeholder:"HOST" help:"Let RUN and ADD reach a host besides: NAME, *.SUFFIX, ADDRESS or CIDR, with an optional :PORT; NAME@private may resolve to a private address. Repeatable."`
	Progress     string            `enum:"auto,plain,quiet" default:"auto" help:"Steps and the output of RUN, on stderr. auto: redrawn on a terminal, else plain; with --json as events on stdout. quiet: nothing."`
	Timeout      time.Duration     `placeholder:"DURATION" help:"End of one RUN; default none."`
	Record       string            `placeholder:"FILE" help:"Write what the image was made of, as JSON."`

	registryFlags
}

func (imageBuildCmd) Help() string {
	return `Builds a Dockerfile without a daemon, in sandboxes. Steps that were done before are taken from the cache.
Base images come from the store, or are fetched into it (not with --offline). What cannot be done as BuildKit does it is refused, by line, before anything runs.
RUN reaches the servers that this machine's package managers use, through its proxy, and nothing else. Behind a company's
certificate or mirror, --inherit-mirrors shows it this machine's settings while it runs; see docs/company-networks.md.

Examples:
  assay image build -t my/image:1 .
  assay image build -t my/image:dev --target dev --build-arg VERSION=3 -f docker/Dockerfile .
  assay image build --inherit-mirrors --allow-host github.com -t my/image:1 .
  assay image build --json . | jq -r 'select(.type == "image.build.step" and .event == "ended") | "\(.seconds) \(.code)"'
  assay image build --secret id=token,src=token.txt --build-context data=../data -t my/image:1 .

Exit status: 0, 1 a step failed or the Dockerfile is not supported, 2 usage, 130 interrupted.`
}

// buildDisk is how much one RUN may write, in bytes: package managers unpack a
// lot before they clean up.
const buildDisk = 32 << 30

func (c *imageBuildCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	o := dockerfile.Options{Dir: image.HostPath(c.Path), Name: c.Tag, Target: c.Target, BuildArgs: c.BuildArg,
		Contexts: c.BuildContext, NoCache: c.NoCache, Timeout: c.Timeout, UID: sandbox.UIDMode(c.UID),
		Limits: sandbox.Limits{DiskBytes: buildDisk}, Record: &dockerfile.Record{}}
	if fi, err := os.Stat(c.Path); err != nil || !fi.IsDir() {
		return usagef("%s is not a directory", c.Path)
	}
	if c.File != "" {
		o.FileDir, o.Dockerfile = image.HostPath(filepath.Dir(c.File)), filepath.Base(c.File)
	}
	if err := c.secrets(a, &o); err != nil {
		return err
	}
	end := c.narrate(a, g, &o)
	defer end()
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := a.builder(g, r, c.Network, c.AllowHost)
	if err != nil {
		return err
	}
	fetch, err := a.fetcher(g, r.images, c.registryFlags)
	if err != nil {
		return err
	}
	o.Resolve = fetchMissing(r.resolve, fetch, func(ref string) {
		if !g.JSON && c.Progress != "quiet" {
			fmt.Fprintf(a.Stderr, "fetching %s\n", ref)
		}
	})
	im, err := b.build(ctx, o)
	end()
	if err != nil {
		return err
	}
	if c.Record != "" {
		b, err := json.MarshalIndent(o.Record, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.Record, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	if g.JSON {
		if err := a.emit("image.build.record", o.Record); err != nil {
			return err
		}
		return a.emit("image", im)
	}
	cached := 0
	for _, s := range o.Record.Steps {
		if s.Cached {
			cached++
		}
	}
	fmt.Fprintf(a.Stdout, "%s %s %d layers, %d of %d steps from the cache\n", im.Name, image.LayerID(im.ID).Short(),
		len(im.Layers), cached, len(o.Record.Steps))
	return nil
}

// secrets reads what --secret and --ssh name.
func (c *imageBuildCmd) secrets(a *app, o *dockerfile.Options) error {
	o.Secrets, o.SSH = map[string][]byte{}, map[string]image.HostPath{}
	for _, s := range c.Secret {
		part := map[string]string{}
		for f := range strings.SplitSeq(s, ",") {
			k, v, _ := strings.Cut(f, "=")
			part[k] = v
		}
		id, src := part["id"], part["src"]+part["source"]
		switch name, isEnv := part["env"]; {
		case id == "":
			return usagef("--secret %s: it has no id", s)
		case isEnv || src == "":
			if name == "" {
				name = id
			}
			v, ok := a.Env(name)
			if !ok {
				return usagef("--secret %s: the environment has no %s", s, name)
			}
			o.Secrets[id] = []byte(v)
		default:
			b, err := os.ReadFile(src)
			if err != nil {
				return fmt.Errorf("--secret %s: %w", id, err)
			}
			o.Secrets[id] = b
		}
	}
	for _, s := range c.SSH {
		id, socket, ok := strings.Cut(s, "=")
		if !ok {
			if socket, ok = a.Env("SSH_AUTH_SOCK"); !ok {
				return usagef("--ssh %s: SSH_AUTH_SOCK is not set; name the agent's socket: --ssh %s=SOCKET", s, id)
			}
		}
		if fi, err := os.Stat(socket); err != nil || fi.Mode().Type() != os.ModeSocket {
			return usagef("--ssh %s: %s is not an agent's socket; keys are given by an agent only", id, socket)
		}
		o.SSH[id] = image.HostPath(socket)
	}
	return nil
}
