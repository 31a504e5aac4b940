package external

import (
	"archive/tar"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// MakeOptions say where an agent is installed from and to.
type MakeOptions struct {
	Store   *image.Store
	Backend sandbox.Backend
	// Build makes an image of the Dockerfile in a directory. What it runs can
	// reach the servers of the package managers.
	Build func(ctx context.Context, dir string) (image.Image, error)
	Upon  string            // image to install upon; empty: image.HostName
	Say   func(what string) // told of each stage; nil: nobody is
	Now   func() time.Time  // nil: time.Now
}

// nodeVersion is what agents get that pin none: the long-term release that the
// strictest of the table asks for. From npm, where each platform is a package.
const nodeVersion = "22.23.3"

//go:embed scripts
var scripts embed.FS

// Make installs an agent into a layer of the store and names it. What the
// package managers had fetched when an installation was cut off is not fetched
// again, and a step that was done is not done again.
func Make(ctx context.Context, r Recipe, o MakeOptions) (Installed, error) {
	if o.Upon == "" {
		o.Upon = image.HostName
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	i, err := install(ctx, r, o)
	if err != nil {
		return i, fmt.Errorf("install agent %q: %w", r.Name, err)
	}
	return i, nil
}

func install(ctx context.Context, r Recipe, o MakeOptions) (Installed, error) {
	digest, err := r.Digest()
	if err != nil {
		return Installed{}, err
	}
	work, err := o.Store.Private()
	if err != nil {
		return Installed{}, err
	}
	defer work.Close()
	dir := string(work.Path("context"))
	if err := r.context(dir, o.Upon); err != nil {
		return Installed{}, err
	}
	o.Say("installing")
	built, err := o.Build(ctx, dir)
	if err != nil {
		return Installed{}, err
	}
	o.Say("packing")
	rec := Record{Name: r.Name, Version: r.Version, Recipe: digest, Place: r.Place(), Arch: runtime.GOARCH, Runtime: r.Install.Runtime,
		Upon: o.Upon, Installed: o.Now().UTC().Truncate(time.Second)}
	if rec.Layer, err = r.pack(ctx, o, built, work, &rec); err != nil {
		return Installed{}, fmt.Errorf("pack: %w", err)
	}
	label, err := json.Marshal(rec)
	if err != nil {
		return Installed{}, err
	}
	im := image.New(rec.imageName(), []image.LayerID{rec.Layer}, nil, image.Config{Labels: map[string]string{RecordLabel: string(label)}})
	return Installed{im, rec}, o.Store.Put(im)
}

// context makes the directory that the installation is built from: the scripts,
// the user's files, and a Dockerfile.
func (r Recipe) context(dir, upon string) error {
	if strings.ContainsFunc(upon, func(c rune) bool { return c <= ' ' || c == '$' || c == '\\' }) {
		return fmt.Errorf("no image is named %q", upon)
	}
	if err := os.MkdirAll(filepath.Join(dir, "scripts"), 0o755); err != nil {
		return err
	}
	files, err := fs.Glob(scripts, "scripts/*")
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := scripts.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f), b, 0o755); err != nil {
			return err
		}
	}
	for _, c := range r.Install.Copy {
		err := r.eachCopy(c, func(rel string, fi fs.FileInfo, data []byte) error {
			p := filepath.Join(dir, "copy", filepath.FromSlash(rel))
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				return err
			}
			return os.WriteFile(p, data, 0o644|fi.Mode().Perm()&0o111)
		})
		if err != nil {
			return fmt.Errorf("copy %s: %w", c, err)
		}
	}
	for i, s := range r.Install.Steps {
		if err := os.WriteFile(filepath.Join(dir, "scripts", fmt.Sprintf("step%d", i)), []byte("set -e\ncd "+string(r.Place())+"\nPATH="+string(r.Place())+"/bin:$PATH\n"+s+"\n"), 0o755); err != nil {
			return err
		}
	}
	text, err := r.dockerfile(upon)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o644)
}

// dockerfile is the installation as a build. Scripts are mounted, so that they
// are in no layer, and a changed one makes its step run again.
func (r Recipe) dockerfile(upon string) (string, error) {
	var t strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&t, format+"\n", args...) }
	const with = "--mount=type=bind,source=scripts,target=/run/assay-install"
	line("FROM %s", upon)
	line("USER 0")
	in := r.Install
	vars := "PLACE=" + string(r.Place())
	cache := ""
	switch in.Runtime {
	case RuntimeNode:
		v := in.RuntimeVersion
		if v == "" {
			v = nodeVersion
		}
		arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
		scripts := ""
		if in.Scripts {
			scripts = "1"
		}
		vars += fmt.Sprintf(" NODE=node-linux-%s@%s SCRIPTS=%s", arch, v, scripts)
		cache = " --mount=type=cache,id=assay-npm,target=/var/cache/assay-npm"
	case RuntimePython:
		vars += " WANT=" + in.RuntimeVersion
		cache = " --mount=type=cache,id=assay-pip,target=/var/cache/assay-pip"
	}
	// Names and versions are checked: no character of theirs means anything
	// to a shell within these quotes.
	vars += " PACKAGES='" + strings.Join(append(in.Packages[:len(in.Packages):len(in.Packages)], in.Loose...), " ") + "'"
	line("RUN %s%s %s sh /run/assay-install/%s.sh", with, cache, vars, in.Runtime)
	if len(in.Copy) > 0 {
		line("COPY copy/ %s/", r.Place())
	}
	for i := range in.Steps {
		line("RUN %s%s sh /run/assay-install/step%d", with, cache, i)
	}
	if len(in.Warm) > 0 {
		words, err := r.warm()
		if err != nil {
			return "", err
		}
		line("RUN --network=none mkdir -p %[1]s/warm && HOME=%[1]s/warm %[2]s </dev/null", r.Place(), words)
	}
	return t.String(), nil
}

// warm is the warming command as words for a shell.
func (r Recipe) warm() (string, error) {
	place := string(r.Place())
	vars := map[string]string{}
	for _, v := range Variables() {
		vars[v] = ""
	}
	vars["agent"], vars["warm"], vars["home"] = place, place+"/warm", place+"/warm"
	var words []string
	for n, w := range r.Install.Warm {
		w, err := Expand(w, vars)
		if err != nil {
			return "", err
		}
		if n == 0 && !strings.Contains(w, "/") {
			w = path.Join(place, "bin", w)
		}
		if strings.ContainsAny(w, "\n\r\x00") {
			return "", errors.New("install.warm: a line break")
		}
		words = append(words, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return strings.Join(words, " "), nil
}

// pack makes the layer of what was built.
func (r Recipe) pack(ctx context.Context, o MakeOptions, built image.Image, work *image.Private, rec *Record) (image.LayerID, error) {
	sb, err := o.Backend.Create(ctx, sandbox.Spec{Image: built})
	if err != nil {
		return "", err
	}
	defer sb.Close()
	spool, err := os.OpenFile(string(work.Path("spool")), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer spool.Close()
	pr, pw := io.Pipe()
	p := &packer{recipe: r, place: r.Place(), spool: spool, out: tar.NewWriter(pw), record: rec,
		needed: map[string]bool{}, have: map[string]bool{}, notes: map[string][]byte{}}
	done := make(chan error, 1)
	go func() {
		err := p.tree(ctx, sb)
		err = errors.Join(err, p.out.Close())
		pw.CloseWithError(err)
		done <- err
	}()
	id, err := o.Store.FromTar(ctx, pr, image.TarOptions{Squash: true})
	pr.CloseWithError(errors.New("the layer is done"))
	if got := <-done; got != nil {
		return "", got
	}
	if err != nil {
		return "", err
	}
	rec.RuntimeVersion = strings.TrimPrefix(strings.TrimSpace(string(p.notes["runtime"])), "v")
	if rec.Packages, err = packages(p.notes); err != nil {
		return "", err
	}
	return id, r.complete(rec.Packages)
}

// complete checks that what was pinned is what was installed: package managers
// have been seen to install an empty package of another version.
func (r Recipe) complete(got []Package) error {
	for _, pin := range r.Install.Packages {
		name, version, ok := strings.Cut(pin, "==")
		if !ok {
			i := strings.LastIndexByte(pin, '@')
			name, version = pin[:i], pin[i+1:]
		}
		name, _, _ = strings.Cut(name, "[")
		found := ""
		for _, p := range got {
			if sameName(p.Name, name) && (found == "" || p.Version == version) {
				found = p.Version
			}
		}
		if found != version {
			return fmt.Errorf("package %s: version %q was installed", pin, found)
		}
	}
	return nil
}

// sameName compares names as PyPI does; npm's have no upper case.
func sameName(a, b string) bool {
	norm := func(s string) string { return strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(s)) }
	return norm(a) == norm(b)
}
