package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/image/registry"
)

// registryFlags say how registries are reached.
type registryFlags struct {
	Mirrors []string `name:"mirror" sep:"none" env:"ASSAY_REGISTRY_MIRRORS" placeholder:"[REGISTRY=]URL" help:"Ask this mirror first, e.g. docker.io=https://mirror.example; repeatable. Without a registry: docker.io."`
	Plain   []string `name:"plain-http" sep:"none" placeholder:"HOST:PORT" help:"Speak to this registry without TLS; repeatable. Loopback needs no saying."`
}

// daemonConfig is the part of Docker's daemon.json that is about registries.
type daemonConfig struct {
	Mirrors  []string `json:"registry-mirrors"`
	Insecure []string `json:"insecure-registries"`
}

// registryConfig puts together what flags, environment and Docker's own files
// say: config.json for credentials, daemon.json for mirrors.
func (a *app) registryConfig(f registryFlags) (registry.Config, error) {
	c := registry.Config{PlainHTTP: f.Plain, Auth: &registry.Keychain{}}
	for _, m := range f.Mirrors {
		// the variable holds several, parted by commas or blanks
		for _, one := range strings.FieldsFunc(m, func(r rune) bool { return r == ',' || r == ' ' }) {
			host, url, ok := strings.Cut(one, "=")
			if !ok {
				host, url = "docker.io", one
			}
			c.Mirrors = append(c.Mirrors, registry.Mirror{Registry: host, URL: url})
		}
	}
	c.Auth.Inline, _ = a.Env("DOCKER_AUTH_CONFIG")
	home, _ := a.Env("HOME")
	dir, ok := a.Env("DOCKER_CONFIG")
	if !ok && home != "" {
		dir = filepath.Join(home, ".docker")
	}
	if dir != "" {
		c.Auth.File = filepath.Join(dir, "config.json")
	}
	daemons := []string{"/etc/docker/daemon.json"}
	if home != "" {
		daemons = append(daemons, filepath.Join(home, ".config", "docker", "daemon.json"))
	}
	for _, p := range daemons {
		d, err := readDaemon(p)
		if err != nil {
			return c, err
		}
		for _, m := range d.Mirrors {
			c.Mirrors = append(c.Mirrors, registry.Mirror{Registry: "docker.io", URL: m})
		}
		for _, h := range d.Insecure {
			if !strings.Contains(h, "/") { // ranges of addresses are not read
				c.PlainHTTP = append(c.PlainHTTP, h)
			}
		}
	}
	return c, nil
}

func readDaemon(path string) (daemonConfig, error) {
	var d daemonConfig
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, 1<<20)).Decode(&d); err != nil && err != io.EOF {
		return d, fmt.Errorf("%s: %w; mend or remove it", path, err)
	}
	return d, nil
}

// registry returns a client whose progress goes to the terminal, or with
// --json to stdout.
func (a *app) registry(g *grammar, s *image.Store, f registryFlags, quiet bool) (*registry.Client, func(), error) {
	c, err := a.registryConfig(f)
	if err != nil {
		return nil, nil, usage(err)
	}
	began, shown := time.Now(), false
	lines := make(chan registry.Progress, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var last time.Time
		for p := range lines {
			sec := time.Since(began).Seconds()
			switch {
			case g.JSON:
				if time.Since(last) < time.Second && p.Done < p.Total {
					continue
				}
				last = time.Now()
				_ = a.emit("image.progress", map[string]any{"ref": p.Ref, "done": p.Done, "total": p.Total, "resumed": p.Resumed,
					"bytes_per_sec": float64(p.Moved) / max(sec, 1e-3)}) // a closed stdout fails the result's write
			case a.Terminal:
				shown = true
				fmt.Fprintf(a.Stderr, "\r\x1b[K%s  %s of %s  %s/s", p.Ref, size(p.Done), size(p.Total), size(int64(float64(p.Moved)/max(sec, 1e-3))))
			}
		}
	}()
	if !quiet && (g.JSON || a.Terminal) {
		c.Progress = func(p registry.Progress) {
			select {
			case lines <- p:
			default: // a slow terminal slows no transfer
			}
		}
	}
	return registry.New(s, c), func() {
		close(lines)
		<-done
		if shown {
			fmt.Fprint(a.Stderr, "\r\x1b[K")
		}
	}, nil
}

// size is bytes for people.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

type imagePullCmd struct {
	Ref      string `arg:"" help:"e.g. python:3.12-slim, ghcr.io/org/image@sha256:…"`
	Name     string `placeholder:"NAME" help:"Name to know it by. Default: REF."`
	Platform string `placeholder:"linux/ARCH" help:"Choose this platform's image. Default: this machine's."`
	Quiet    bool   `short:"q" help:"No progress."`
	registryFlags
}

func (imagePullCmd) Help() string {
	return `Fetches what is missing of an image and checks every digest. A pull that was cut off goes on where it
stopped. Credentials come from DOCKER_AUTH_CONFIG and from docker's config.json with its credential helpers;
mirrors from --mirror, ASSAY_REGISTRY_MIRRORS and docker's daemon.json, in this order.

Examples:
  assay image pull debian:bookworm-slim
  assay image pull ghcr.io/org/task@sha256:0123… --name task:1
  assay image pull python:3.12 --mirror https://mirror.example:5000

Exit status: 0, 1 it could not be had, 2 usage, 130 interrupted.`
}

func (c *imagePullCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	began := time.Now()
	client, end, err := a.registry(g, s, c.registryFlags, c.Quiet)
	if err != nil {
		return err
	}
	p, err := client.Pull(ctx, c.Ref, registry.PullOptions{Platform: c.Platform, Name: c.Name})
	end()
	if err != nil {
		return err
	}
	sec := time.Since(began).Seconds()
	if g.JSON {
		return a.emit("image.pulled", map[string]any{"image": p.Image, "digest": p.Digest, "source": p.Source, "layers": p.Layers,
			"existing_layers": p.Existing, "bytes": p.Bytes, "fetched": p.Fetched, "resumed": p.Resumed, "seconds": sec})
	}
	fmt.Fprintf(a.Stdout, "%s %s %d layers, %d of them here already\n", p.Image.Name, image.LayerID(p.Image.ID).Short(), p.Layers, p.Existing)
	fmt.Fprintf(a.Stdout, "digest %s from %s\n", p.Digest, p.Source)
	resumed := ""
	if p.Resumed > 0 {
		resumed = fmt.Sprintf(", %s were here from a pull that was cut off", size(p.Resumed))
	}
	fmt.Fprintf(a.Stdout, "fetched %s of %s in %.1f s%s\n", size(p.Fetched), size(p.Bytes), sec, resumed)
	return nil
}

type imagePushCmd struct {
	Name  string `arg:"" help:"Image of the store."`
	Ref   string `arg:"" help:"Registry, repository and tag, e.g. ghcr.io/org/image:1."`
	Quiet bool   `short:"q" help:"No progress."`
	registryFlags
}

func (imagePushCmd) Help() string {
	return `Layers that the registry has are not sent again. Credentials are found as for pull; mirrors play no part.

Example:
  assay image push my/task:1 ghcr.io/org/task:1

Exit status: 0, 1 it was refused or did not arrive, 2 usage, 130 interrupted.`
}

func (c *imagePushCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	im, err := s.Resolve(c.Name)
	if err != nil {
		return err
	}
	client, end, err := a.registry(g, s, c.registryFlags, c.Quiet)
	if err != nil {
		return err
	}
	p, err := client.Push(ctx, im, c.Ref)
	end()
	if err != nil {
		return err
	}
	if g.JSON {
		return a.emit("image.pushed", map[string]any{"name": im.Name, "ref": p.Ref, "digest": p.Digest, "layers": p.Layers, "bytes": p.Bytes})
	}
	fmt.Fprintf(a.Stdout, "%s %d layers, %s\n", p.Ref, p.Layers, size(p.Bytes))
	return nil
}
