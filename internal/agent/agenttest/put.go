package agenttest

import (
	"archive/tar"
	"bytes"
	"context"
	"path"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// putFile puts one needed file in place, as the job does.
func putFile(ctx context.Context, sb sandbox.Trees, f agent.File) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Base(string(f.Path)), Mode: int64(f.Mode), Size: int64(len(f.Data))}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := w.Write(f.Data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return sb.Put(ctx, image.Path(path.Dir(string(f.Path))), &b)
}
