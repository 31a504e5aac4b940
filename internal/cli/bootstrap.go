package cli

import (
	"fmt"
	"path/filepath"

	"assay/internal/image"
	"assay/internal/image/bootstrap"
	"assay/internal/mirrors"
	"assay/internal/sandbox"
)

type imageBootstrapCmd struct {
	Distro  string   `arg:"" enum:"debian,ubuntu" help:"debian or ubuntu."`
	Suite   string   `arg:"" optional:"" help:"Suite, e.g. bookworm or noble; default: the current stable one that is known."`
	Variant string   `default:"minbase" placeholder:"NAME" help:"debootstrap's variant: minbase, buildd or -."`
	Include []string `placeholder:"PKG" help:"More packages, separated by commas."`
	Mirror  string   `placeholder:"URL" help:"Archive that the image uses; default: the public one, fetched through this machine's own mirror of it."`
	Name    string   `placeholder:"NAME" help:"Name of the image; default: DISTRO:SUITE."`
	UID     string   `name:"uid" enum:",single,subid,root" default:"" help:"User ids while packages are set up: single (the default), every file is root's in the image; subid or root, owners are the packages'."`
}

func (imageBootstrapCmd) Help() string {
	return `The host's debootstrap downloads and checks signatures; packages are unpacked and configured in a
sandbox without network. Root is not needed. Downloaded packages are kept for the next time.

Examples:
  assay image bootstrap debian
  assay image bootstrap debian trixie --include ca-certificates,git --name local/base:1
  assay image bootstrap ubuntu noble --mirror https://mirror.example/ubuntu

Exit status: 0, 1 when debootstrap is missing, the mirror does not answer or a package fails, 2 usage.`
}

func (c *imageBootstrapCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	dir, err := a.storeDir(g)
	if err != nil {
		return err
	}
	settings, err := mirrors.Read(a.machine())
	if err != nil {
		return err
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	host, err := r.host()
	if err != nil {
		return err
	}
	o := bootstrap.Options{
		Store: r.images, Backend: r.backend, Host: host, Cache: filepath.Join(dir, "bootstrap"),
		Distro: c.Distro, Suite: c.Suite, Variant: c.Variant, Include: c.Include, UID: sandbox.UIDMode(c.UID), Mirror: c.Mirror, Name: c.Name, Progress: a.Stderr,
	}
	if c.Mirror == "" {
		o.Through = settings.AptMirror(bootstrap.PublicMirror(c.Distro))
	}
	img, rec, err := bootstrap.Make(ctx, o)
	if err != nil {
		return err
	}
	if g.JSON {
		return a.emit("image", struct {
			image.Image
			Bootstrap bootstrap.Record `json:"bootstrap"`
		}{img, rec})
	}
	fmt.Fprintf(a.Stdout, "%s %s %d packages\n", img.Name, image.LayerID(img.ID).Short(), len(rec.Packages))
	return nil
}

// machine is this machine, for reading its settings.
func (a *app) machine() mirrors.Host {
	home, _ := a.Env("HOME")
	return mirrors.Host{Home: home, Env: a.Env}
}
