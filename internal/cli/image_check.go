package cli

import (
	"fmt"

	"assay/internal/image"
)

type imageCheckCmd struct {
	ReadData bool `help:"Read every file of every layer, too."`
}

func (imageCheckCmd) Help() string {
	return `Looks whether each layer's manifest is the one that it is named after, and whether every layer is there that
an image or a job needs. With --read-data, every file is compared with its manifest. Nothing is changed.

Examples:
  assay image check
  assay image check --read-data --json

Exit status: 0 the store is whole, 1 something is lost or damaged, 2 usage, 130 interrupted.`
}

func (c *imageCheckCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	s, err := a.openStore(g)
	if err != nil {
		return err
	}
	v, err := s.Verify(ctx, image.VerifyOptions{ReadData: c.ReadData})
	if err != nil {
		return err
	}
	for _, p := range v.Problems {
		if g.JSON {
			if err := a.emit("image.problem", p); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.Stdout, "%s %s: %s\n  %s\n", p.Kind, p.Name, p.Detail, p.Remedy)
	}
	if g.JSON {
		if err := a.emit("image.check", struct {
			image.Verified
			Problems int `json:"problems"`
		}{v, len(v.Problems)}); err != nil {
			return err
		}
	} else {
		read := ""
		if c.ReadData {
			read = fmt.Sprintf(", %d files of %s read", v.Files, size(v.Bytes))
		}
		fmt.Fprintf(a.Stdout, "%d layers, %d images, %d jobs%s: %d problems\n", v.Layers, v.Images, v.Jobs, read, len(v.Problems))
	}
	if n := len(v.Problems); n > 0 {
		return fmt.Errorf("the store has %d problems", n)
	}
	return nil
}
