package dockerfile_test

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
)

// tree collects the names of one image, whoever built it.
type tree struct {
	entries []image.Entry
	files   []string // by entry: equal for names of one file
}

func (n *tree) add(e image.Entry, file string) {
	if e.Path == "." { // a tar of the engine has none
		return
	}
	n.entries, n.files = append(n.entries, e), append(n.files, file)
}

// describe gives a line a name. Times are not in it; owners, set-id bits and
// capabilities are not where the uid mode has none.
func (n *tree) describe(without map[string]bool) map[string]string {
	names := map[string][]string{}
	for i, e := range n.entries {
		if e.Type == image.TypeFile { // the exporter does not tell of others
			names[n.files[i]] = append(names[n.files[i]], e.Path)
		}
	}
	all := map[string]string{}
	for i, e := range n.entries {
		if without[e.Path] {
			e.Mode, e.UID, e.GID, e.Xattrs = e.Mode&0o1777, 0, 0, maps.Clone(e.Xattrs)
			delete(e.Xattrs, "security.capability")
		}
		s := fmt.Sprintf("%s %04o %d:%d", e.Type, e.Mode, e.UID, e.GID)
		switch e.Type {
		case image.TypeFile:
			s += fmt.Sprintf(" %d bytes %.15s", e.Size, e.Digest)
		case image.TypeSymlink:
			s = fmt.Sprintf("symlink %d:%d to %q", e.UID, e.GID, e.Link)
		case image.TypeChar, image.TypeBlock:
			s += fmt.Sprintf(" %d,%d", e.Major, e.Minor)
		}
		if len(e.Xattrs) > 0 {
			s += fmt.Sprintf(" %q", e.Xattrs) // fmt sorts maps
		}
		if same := names[n.files[i]]; len(same) > 1 {
			s += " = " + slices.Min(same)
		}
		all[e.Path] = s
	}
	return all
}

// readTree reads what BuildKit's exporter of trees writes.
func readTree(t *testing.T, r io.Reader) *tree {
	t.Helper()
	n := &tree{}
	at := map[string]image.Entry{}
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		p := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if p == "" {
			continue
		}
		e := image.Entry{Path: p, Mode: uint32(h.Mode) & 0o7777, UID: h.Uid, GID: h.Gid, Major: uint32(h.Devmajor), Minor: uint32(h.Devminor)}
		for k, v := range h.PAXRecords {
			if k, ok := strings.CutPrefix(k, "SCHILY.xattr."); ok {
				if e.Xattrs == nil {
					e.Xattrs = map[string]string{}
				}
				e.Xattrs[k] = v
			}
		}
		file := p
		switch h.Typeflag {
		case tar.TypeDir:
			e.Type = image.TypeDir
		case tar.TypeReg:
			sum := sha256.New()
			if e.Size, err = io.Copy(sum, tr); err != nil {
				t.Fatal(err)
			}
			e.Type, e.Digest = image.TypeFile, fmt.Sprintf("sha256:%x", sum.Sum(nil))
		case tar.TypeSymlink:
			e.Type, e.Link = image.TypeSymlink, h.Linkname
		case tar.TypeLink:
			file = strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")
			to, ok := at[file]
			if !ok {
				t.Fatalf("%q is a link to %q, which is not there", p, h.Linkname)
			}
			e = to
			e.Path = p
		case tar.TypeFifo:
			e.Type = image.TypeFIFO
		case tar.TypeChar:
			e.Type = image.TypeChar
		case tar.TypeBlock:
			e.Type = image.TypeBlock
		default:
			t.Fatalf("%q has type %c", p, h.Typeflag)
		}
		at[p] = e
		n.add(e, file)
	}
}

func differing(a, b map[string]string) []string {
	var all []string
	for p, v := range a {
		if b[p] != v {
			all = append(all, p)
		}
	}
	for p := range b {
		if _, ok := a[p]; !ok {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// inspect reads the configuration of what BuildKit built last.
func (w *corpus) inspect(t *testing.T, c corpusCase) image.Config {
	t.Helper()
	var all []struct {
		Author string
		Config struct {
			Env, Cmd, Entrypoint, Shell, OnBuild []string
			User, StopSignal                     string
			WorkingDir                           image.Path
			Labels                               map[string]string
			ExposedPorts, Volumes                map[string]struct{}
			Healthcheck                          *struct {
				Test                                          []string
				Interval, Timeout, StartPeriod, StartInterval time.Duration
				Retries                                       int
			}
		}
	}
	if err := json.Unmarshal([]byte(docker(t, "image", "inspect", corpusBase+"-"+c.name)), &all); err != nil {
		t.Fatal(err)
	}
	d := all[0].Config
	cfg := image.Config{Env: d.Env, Workdir: d.WorkingDir, User: d.User, Entrypoint: d.Entrypoint, Cmd: d.Cmd, Labels: d.Labels,
		Ports: slices.Sorted(maps.Keys(d.ExposedPorts)), Volumes: slices.Sorted(maps.Keys(d.Volumes)), Shell: d.Shell,
		StopSignal: d.StopSignal, OnBuild: d.OnBuild, Author: all[0].Author}
	if h := d.Healthcheck; h != nil {
		cfg.Healthcheck = &image.Healthcheck{Test: h.Test, Interval: h.Interval, Timeout: h.Timeout,
			StartPeriod: h.StartPeriod, StartInterval: h.StartInterval, Retries: h.Retries}
	}
	return cfg
}

// configOf writes a configuration down. BuildKit keeps a slash at the end of a
// working directory, and may leave out the root. The order of the environment
// counts.
func configOf(c image.Config) string {
	c.Workdir = image.Path(path.Clean("/" + string(c.Workdir)))
	b, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		panic(err)
	}
	return string(b)
}
