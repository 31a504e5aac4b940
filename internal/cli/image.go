package cli

import (
	"fmt"
	"text/tabwriter"

	"assay/internal/image"
)

type imageCmd struct {
	List      imageListCmd      `cmd:"" help:"List the images of the store."`
	Build     imageBuildCmd     `cmd:"" help:"Build an image from a Dockerfile, without a daemon."`
	Import    imageImportCmd    `cmd:"" help:"Import a rootfs directory or tar, a docker save archive or an OCI layout."`
	Bootstrap imageBootstrapCmd `cmd:"" help:"Make a Debian or Ubuntu base image with debootstrap; root is not needed."`
	Pull      imagePullCmd      `cmd:"" help:"Fetch an image from a registry."`
	Push      imagePushCmd      `cmd:"" help:"Write an image to a registry."`
	Export    imageExportCmd    `cmd:"" help:"Write an image as an archive."`
	Inspect   imageInspectCmd   `cmd:"" help:"Show an image's layers, digests and configuration."`
	Rm        imageRmCmd        `cmd:"" help:"Remove images; their layers go with gc."`
	Du        imageDuCmd        `cmd:"" help:"Show what fills the store, and which images share what."`
	Check     imageCheckCmd     `cmd:"" help:"Look whether the store is whole."`
	GC        imageGCCmd        `cmd:"" name:"gc" help:"Free layers that no image and no job needs."`
}

type imageListCmd struct{}

func (imageListCmd) Help() string {
	return `The pseudo-image "host", this machine's own read-only toolchains, is always there.

Example:
  assay image list --json

Exit status: 0.`
}

func (imageListCmd) Run(a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	all, err := s.List()
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(a.Stdout, 0, 4, 2, ' ', 0)
	if !g.JSON {
		fmt.Fprintln(tw, "NAME\tID\tLAYERS\tWORKDIR")
	}
	for _, img := range all {
		if g.JSON {
			if err := a.emit("image", img); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\n", img.Name, image.LayerID(img.ID).Short(), len(img.Layers), img.Config.Workdir)
	}
	return tw.Flush()
}

type imageImportCmd struct {
	Path string `arg:"" help:"Directory, .tar, .tar.gz or .tar.zst."`
	Name string `required:"" placeholder:"NAME" help:"Name to know it by, e.g. local/base:1."`
}

func (imageImportCmd) Help() string {
	return `What the source is, is recognised: a rootfs directory or tar, a docker save archive, an OCI layout.

Examples:
  docker save my/image:1 | gzip > image.tar.gz && assay image import image.tar.gz --name my/image:1
  debootstrap --variant=minbase bookworm base && assay image import base --name local/base:1

Exit status: 0, 1 the source is damaged or hostile, 2 usage.`
}

func (c *imageImportCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	img, err := s.Import(ctx, image.HostPath(c.Path), c.Name)
	if err != nil {
		return err
	}
	if g.JSON {
		return a.emit("image", img)
	}
	fmt.Fprintf(a.Stdout, "%s %s %d layers\n", img.Name, image.LayerID(img.ID).Short(), len(img.Layers))
	return nil
}

type imageRmCmd struct {
	Names []string `arg:"" name:"name" help:"Images to remove."`
}

func (imageRmCmd) Help() string {
	return `Example:
  assay image rm my/image:1 && assay image gc

Exit status: 0, 1 when an image does not exist.`
}

func (c *imageRmCmd) Run(a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	for _, n := range c.Names {
		if err := s.Remove(n); err != nil {
			return err
		}
		if g.JSON {
			if err := a.emit("image.removed", map[string]string{"name": n}); err != nil {
				return err
			}
		}
	}
	return nil
}

type imageGCCmd struct{}

func (imageGCCmd) Help() string {
	return `Kept are layers of images, end states of jobs whose directory still exists, what running commands need,
and steps of builds that were used in the last ten minutes.

Example:
  assay image gc

Exit status: 0.`
}

func (imageGCCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	freed, err := s.GC(ctx, image.GCOptions{})
	if err != nil {
		return err
	}
	if g.JSON {
		return a.emit("image.gc", freed)
	}
	fmt.Fprintf(a.Stdout, "freed %d layers, %.1f MB\n", freed.Layers, float64(freed.Bytes)/1e6)
	return nil
}
