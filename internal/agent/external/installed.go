package external

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Record says what an agent's layer holds. It lies in the label RecordLabel of
// the layer's image and goes with it from machine to machine.
type Record struct {
	Name           string        `json:"name"`
	Version        string        `json:"version"`
	Recipe         string        `json:"recipe"` // digest of what was installed by
	Place          image.Path    `json:"place"`
	Arch           string        `json:"arch"`
	Runtime        Runtime       `json:"runtime"`
	RuntimeVersion string        `json:"runtime_version,omitempty"`
	Libc           string        `json:"libc,omitempty"` // "glibc 2.36"; empty: nothing in it is linked with one
	Upon           string        `json:"upon"`           // image that it was installed upon
	Layer          image.LayerID `json:"layer"`
	Bytes          int64         `json:"bytes"`
	Files          int           `json:"files"`
	Installed      time.Time     `json:"installed"`
	Packages       []Package     `json:"packages,omitempty"`
	Libraries      []string      `json:"libraries,omitempty"` // of the image, copied
	Missing        []string      `json:"missing,omitempty"`   // named by programs, and nowhere to be found
}

// Package is one package that was installed.
type Package struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Integrity string `json:"integrity,omitempty"` // digest of the archive, as the manager writes it
}

// RecordLabel is the label of an agent's image that holds its Record as JSON.
const RecordLabel = "assay.agent"

// Installed is an agent in the store.
type Installed struct {
	Image  image.Image
	Record Record
}

// Mount is what a sandbox needs to run it.
func (i Installed) Mount() sandbox.Mount {
	return sandbox.Mount{Layer: i.Record.Layer, Target: i.Record.Place, ReadOnly: true}
}

// NotInstalledError says that an agent is not in the store.
type NotInstalledError struct {
	Recipe Recipe
	Other  []string // versions or recipes of that name that are
}

func (e *NotInstalledError) Error() string {
	what := e.Recipe.Name
	if e.Recipe.File != "" {
		what = e.Recipe.File
	}
	other := ""
	if len(e.Other) > 0 {
		other = fmt.Sprintf(" by this recipe (there is %s)", strings.Join(e.Other, ", "))
	}
	return fmt.Sprintf("agent %q, version %s, is not installed%s; install it with: assay agent install %s", e.Recipe.Name, e.Recipe.Version, other, what)
}

// layout is part of every digest: it changes when equal recipes give other
// layers.
const layout = "assay agent layer 1"

// imagePrefix begins the names of agents' images in the store.
const imagePrefix = "assay-agent/"

// Digest names what the installation depends on: the recipe's install section,
// its version, and the content of the files beside it.
func (r Recipe) Digest() (string, error) {
	sum := sha256.New()
	b, err := json.Marshal([]any{layout, r.Name, r.Version, r.Install})
	if err != nil {
		return "", err
	}
	sum.Write(b)
	for _, c := range r.Install.Copy {
		if err := r.eachCopy(c, func(rel string, fi fs.FileInfo, data []byte) error {
			fmt.Fprintf(sum, "\n%q %v %d\n", rel, fi.Mode(), len(data))
			sum.Write(data)
			return nil
		}); err != nil {
			return "", fmt.Errorf("recipe %q: copy %s: %w", r.Name, c, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

const (
	maxCopy  = 64 << 20 // bytes of one file beside a recipe
	maxFiles = 20000
)

// eachCopy walks one entry of Install.Copy. Links are not followed: a
// directory's are errors, for nobody can say what they will lead to.
func (r Recipe) eachCopy(name string, f func(rel string, fi fs.FileInfo, data []byte) error) error {
	if r.File == "" {
		return errors.New("the recipe was not read from a file")
	}
	root, err := os.OpenRoot(filepath.Dir(r.File))
	if err != nil {
		return err
	}
	defer root.Close()
	n := 0
	return fs.WalkDir(root.FS(), path.Clean(name), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if n++; err == nil && n > maxFiles {
			err = fmt.Errorf("more than %d files", maxFiles)
		}
		if err != nil || d.IsDir() {
			return err
		}
		if !fi.Mode().IsRegular() || fi.Size() > maxCopy {
			return fmt.Errorf("%s is no file of at most %d bytes", p, maxCopy)
		}
		b, err := root.ReadFile(filepath.FromSlash(p))
		if err != nil {
			return err
		}
		return f(p, fi, b)
	})
}

// imageName is the name of the agent's image in a store.
func (r Record) imageName() string {
	return fmt.Sprintf("%s%s:%s-%.8s", imagePrefix, r.Name, strings.ReplaceAll(r.Version, "+", "_"), r.Recipe)
}

// Find returns the installation of a recipe and holds its layer. What is not
// there is a *NotInstalledError.
func Find(s *image.Store, r Recipe) (Installed, error) {
	digest, err := r.Digest()
	if err != nil {
		return Installed{}, err
	}
	im, err := s.Resolve(Record{Name: r.Name, Version: r.Version, Recipe: digest}.imageName())
	var missing *image.MissingError
	if errors.As(err, &missing) {
		e := &NotInstalledError{Recipe: r}
		all, err := List(s)
		if err != nil {
			return Installed{}, err
		}
		for _, i := range all {
			if i.Record.Name == r.Name {
				e.Other = append(e.Other, i.Record.Version)
			}
		}
		return Installed{}, e
	}
	if err != nil {
		return Installed{}, fmt.Errorf("agent %q: %w", r.Name, err)
	}
	i, err := installed(im)
	if err == nil && i.Record.Recipe != digest {
		err = fmt.Errorf("agent %q: %s was made by another recipe; install it again", r.Name, im.Name)
	}
	return i, err
}

// installed reads what an image says of itself.
func installed(im image.Image) (Installed, error) {
	i := Installed{Image: im}
	if err := json.Unmarshal([]byte(im.Config.Labels[RecordLabel]), &i.Record); err != nil {
		return i, fmt.Errorf("image %q is no agent: its label %s: %w", im.Name, RecordLabel, err)
	}
	place := Recipe{Name: i.Record.Name}.Place()
	if len(im.Layers) != 1 || len(i.Record.Recipe) != 2*sha256.Size || !versionRE.MatchString(i.Record.Version) || !nameRE.MatchString(i.Record.Name) || i.Record.Place != place {
		return i, fmt.Errorf("image %q is no agent: %d layers, for %s", im.Name, len(im.Layers), i.Record.Place)
	}
	// An archive has been unpacked into a layer of this store's own.
	i.Record.Layer = im.Layers[0]
	return i, nil
}

// List returns every agent of a store, in order of names, the latest
// installation of one name first. Images that only look like agents are left
// out.
func List(s *image.Store) ([]Installed, error) {
	images, err := s.List()
	if err != nil {
		return nil, err
	}
	var all []Installed
	for _, im := range images {
		if !strings.HasPrefix(im.Name, imagePrefix) {
			continue
		}
		if i, err := installed(im); err == nil {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(a, b Installed) int {
		return cmp.Or(cmp.Compare(a.Record.Name, b.Record.Name), b.Record.Installed.Compare(a.Record.Installed))
	})
	return all, nil
}

// ReadFile reads a user's recipe; files that it copies lie beside it.
func ReadFile(file string) (Recipe, error) {
	fi, err := os.Stat(file)
	if err != nil {
		return Recipe{}, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxRecipe {
		return Recipe{}, &Error{File: file, Err: fmt.Errorf("no file of at most %d bytes", maxRecipe)}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return Recipe{}, err
	}
	r, err := Parse(file, b)
	if err != nil {
		return r, err
	}
	r.File, err = filepath.Abs(file)
	return r, err
}

// Import takes an agent from an archive of Export's, which may be hostile: what
// is in it runs in sandboxes alone.
func Import(ctx context.Context, s *image.Store, file image.HostPath) (Installed, error) {
	// It gets its name only once it is known to be an agent.
	im, err := s.Read(ctx, file, "")
	if err != nil {
		return Installed{}, err
	}
	i, err := installed(im)
	if err != nil {
		return i, fmt.Errorf("take an agent from %s: %w", file, err)
	}
	if i.Record.Arch != runtime.GOARCH {
		return i, fmt.Errorf("take an agent from %s: it is for %s, this machine is %s", file, i.Record.Arch, runtime.GOARCH)
	}
	if want := i.Record.imageName(); im.Name != want {
		return i, fmt.Errorf("take an agent from %s: it is named %q, not %q", file, im.Name, want)
	}
	return i, s.Put(im)
}
