package dockerfile_test

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/egress"
	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"
)

// corpusBase is what the Dockerfiles of the corpus call their base, here and in
// the engine.
const corpusBase = "assay-corpus"

// baseEnv is what both sides give it beside its tree.
const baseEnv = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Every Dockerfile of testdata/corpus gives the tree and the configuration that
// BuildKit gives, and a second build does nothing. What differs may do so only
// where two uncached builds of BuildKit differ from each other too, or where
// the case says why. Uid modes without real owners are not asked for those of
// what a RUN wrote, nor for its set-id bits.
//
// Cases whose header says "ci" are built always, all of them with
// ASSAY_CORPUS=all, some with ASSAY_CORPUS=NAME,NAME. The base is the tar
// ASSAY_BASE_TAR, a Debian with Python and git, less what no case reads.
func TestCorpusWithBuildKit(t *testing.T) {
	if os.Getenv("DOCKER_HOST") == "" || os.Getenv("ASSAY_BASE_TAR") == "" {
		t.Skip("needs a Docker engine named by DOCKER_HOST and a Debian root file system named by ASSAY_BASE_TAR")
	}
	files, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil || len(files) < 40 {
		t.Fatal(files, err)
	}
	w := newCorpus(t)
	for _, file := range files {
		c := readCase(t, file)
		if chosen := os.Getenv("ASSAY_CORPUS"); chosen == "" && !c.ci ||
			chosen != "" && chosen != "all" && !slices.Contains(strings.Split(chosen, ","), c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // the engine waits more than it works
			w.compare(t, c)
		})
	}
}

// corpus holds what all cases share.
type corpus struct {
	store   *image.Store
	backend *ns.Backend
	agent   string // a socket that takes connections and says nothing
}

func newCorpus(t *testing.T) *corpus {
	o := image.Options{Volatile: true, Owner: ns.Owner()}
	s, err := image.Open(image.HostPath(t.TempDir()), o)
	if err != nil {
		t.Fatal(err)
	}
	w := &corpus{store: s, agent: filepath.Join(t.TempDir(), "agent")}
	slim := filepath.Join(t.TempDir(), "base.tar")
	slimBase(t, os.Getenv("ASSAY_BASE_TAR"), slim)
	im, err := s.Import(t.Context(), image.HostPath(slim), corpusBase)
	if err != nil {
		t.Fatal(err)
	}
	im.Config = image.Config{Env: []string{baseEnv}, Cmd: []string{"bash"}}
	for _, name := range []string{corpusBase, corpusBase + ":latest"} {
		if err := s.Put(image.New(name, im.Layers, nil, im.Config)); err != nil {
			t.Fatal(err)
		}
	}
	docker(t, "import", "-c", "ENV "+baseEnv, "-c", `CMD ["bash"]`, slim, corpusBase)
	t.Cleanup(func() { exec.Command("docker", "rmi", "-f", corpusBase).Run() })
	if w.backend, err = ns.Open(t.Context(), ns.Config{Store: s, Scratch: image.HostPath(t.TempDir())}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.backend.Close() })
	l, err := net.Listen("unix", w.agent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return w
}

// slimBase leaves out of a Debian what costs time and no case reads.
func slimBase(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r, w := tar.NewReader(in), tar.NewWriter(out)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		p := strings.TrimPrefix(filepath.Clean("/"+h.Name), "/")
		if slices.ContainsFunc([]string{"var/cache/", "var/lib/apt/lists/", "usr/share/locale/", "usr/share/doc/", "usr/share/man/",
			"usr/share/perl/", "usr/lib/x86_64-linux-gnu/perl/", "usr/lib/x86_64-linux-gnu/gconv/", "usr/lib/x86_64-linux-gnu/libicu",
			"usr/lib/x86_64-linux-gnu/libLLVM"}, func(no string) bool { return strings.HasPrefix(p, no) }) {
			continue
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// corpusCase is one Dockerfile: a txtar archive whose comment holds a line an
// option, and text. Besides the sections of unpack it may have "hard" (NAME
// TARGET), "xattrs" (NAME KEY VALUE), "sparse" (NAME BYTES) and "archives"
// (NAME DIRECTORY), which are made in this order, and "differs" (PATTERN WHY).
//
// Words of the header: "ci"; "target", "file", "arg K=V", "secret ID=VALUE" and
// "context NAME=TREE" are options of the build; "ssh" gives an agent; "network"
// serves the directory "served" at $SERVER; "crlf" ends the Dockerfile's lines
// so; "ids" needs commands that are other users.
type corpusCase struct {
	name, target, file   string
	ci, network, ssh     bool
	crlf, ids            bool
	differs              string
	args, secrets, trees map[string]string
	archive              *txtar.Archive
}

func readCase(t *testing.T, file string) corpusCase {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := corpusCase{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), file: "Dockerfile", archive: a,
		args: map[string]string{}, secrets: map[string]string{}, trees: map[string]string{}}
	for l := range strings.Lines(string(a.Comment)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(l), " ")
		k, v, isPair := strings.Cut(rest, "=")
		switch {
		case word == "ci" && rest == "":
			c.ci = true
		case word == "network" && rest == "":
			c.network = true
		case word == "ssh" && rest == "":
			c.ssh = true
		case word == "crlf" && rest == "":
			c.crlf = true
		case word == "ids" && rest == "":
			c.ids = true
		case word == "target":
			c.target = rest
		case word == "file":
			c.file = rest
		case word == "arg" && isPair:
			c.args[k] = v
		case word == "secret" && isPair:
			c.secrets[k] = v
		case word == "context" && isPair:
			c.trees[k] = v
		}
	}
	for _, f := range a.Files {
		if f.Name == "differs" {
			c.differs = string(f.Data)
		}
	}
	return c
}

// context makes the build context of a case.
func (c corpusCase) context(t *testing.T) string {
	t.Helper()
	special := map[string][]byte{}
	plain := &txtar.Archive{}
	for _, f := range c.archive.Files {
		switch f.Name {
		case "hard", "xattrs", "sparse", "archives", "differs":
			special[f.Name] = f.Data
		case "Dockerfile":
			if c.crlf {
				f.Data = bytes.ReplaceAll(f.Data, []byte("\n"), []byte("\r\n"))
			}
			fallthrough
		default:
			plain.Files = append(plain.Files, f)
		}
	}
	dir, _, _ := unpack(t, plain)
	at := func(p string) string { return filepath.Join(dir, p) }
	for _, s := range []struct {
		name string
		make func(f []string) error
	}{
		{"hard", func(f []string) error { return os.Link(at(f[1]), at(f[0])) }},
		{"xattrs", func(f []string) error { return unix.Setxattr(at(f[0]), f[1], []byte(f[2]), 0) }},
		{"sparse", func(f []string) error {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err == nil {
				err = os.WriteFile(at(f[0]), []byte("begin"), 0o644)
			}
			if err == nil {
				err = os.Truncate(at(f[0]), n)
			}
			return err
		}},
		{"archives", func(f []string) error { return packed(at(f[1]), at(f[0])) }},
	} {
		for l := range strings.Lines(string(special[s.name])) {
			if err := s.make(strings.Fields(l)); err != nil {
				t.Fatalf("%s: %s: %v", s.name, l, err)
			}
		}
	}
	return dir
}

// packed writes a directory as an archive, with owners of its own; how it is
// compressed its name says.
func packed(dir, to string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	var out io.WriteCloser = f
	switch filepath.Ext(to) {
	case ".gz", ".tgz":
		out = gzip.NewWriter(f)
	case ".zst":
		if out, err = zstd.NewWriter(f); err != nil {
			return err
		}
	}
	w := tar.NewWriter(out)
	inodes := map[uint64]string{}
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if d.Type() == fs.ModeSymlink {
			if link, err = os.Readlink(p); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(fi, link)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(dir), p)
		if err != nil {
			return err
		}
		h.Name, h.Uid, h.Gid, h.Uname, h.Gname = rel, 7, 8, "", ""
		if fi.IsDir() {
			h.Name += "/"
		}
		if first := inodes[st.Ino]; first != "" && fi.Mode().IsRegular() {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		}
		inodes[st.Ino] = rel
		if err := w.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
			return err
		}
		b, err := os.ReadFile(p)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err == nil && out != io.WriteCloser(f) {
		err = out.Close()
	}
	return err
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	b, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, b)
	}
	return string(b)
}

func (w *corpus) compare(t *testing.T, c corpusCase) {
	dir := c.context(t)
	if c.network {
		server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dir, "served"))))
		defer server.Close()
		c.args["SERVER"] = server.URL
	}
	theirs := w.buildkit(t, c, dir)
	config := configOf(w.inspect(t, c))
	var again *tree // built when it is wanted
	for _, mode := range w.backend.Capabilities().UIDModes {
		real := mode == sandbox.UIDRoot
		if c.ids && !real || mode == sandbox.UIDSub {
			continue
		}
		im, ours, run := w.build(t, c, dir, mode)
		if d := cmp.Diff(config, configOf(im.Config)); d != "" {
			t.Errorf("uid mode %s: configuration: BuildKit (-), here (+)\n%s", mode, d)
		}
		if real {
			run = nil
		}
		want, got := theirs.describe(run), ours.describe(run)
		for _, p := range differing(want, got) {
			why := c.known(p)
			if why == "" && again == nil {
				again = w.buildkit(t, c, dir)
			}
			if why == "" && slices.Contains(differing(want, again.describe(run)), p) {
				why = "two uncached builds of BuildKit differ there too"
			}
			if why != "" {
				t.Logf("uid mode %s: %q: %s", mode, p, why)
				continue
			}
			t.Errorf("uid mode %s: %q\n  BuildKit %s\n  here     %s", mode, p, want[p], got[p])
		}
	}
}

// known says why a path may differ from what the engine's BuildKit makes.
func (c corpusCase) known(p string) string {
	for l := range strings.Lines(c.differs) {
		pattern, why, _ := strings.Cut(strings.TrimSpace(l), " ")
		if ok, _ := path.Match(pattern, p); ok {
			return why
		}
	}
	return ""
}

// build builds a case here, twice. run are the paths that a RUN wrote last.
func (w *corpus) build(t *testing.T, c corpusCase, dir string, mode sandbox.UIDMode) (im image.Image, names *tree, run map[string]bool) {
	t.Helper()
	var out bytes.Buffer
	o := dockerfile.Options{Store: w.store, Backend: w.backend, Dir: image.HostPath(dir), Target: c.target, BuildArgs: c.args,
		Contexts: map[string]string{}, Secrets: map[string][]byte{}, SSH: map[string]image.HostPath{}, Progress: &out, Record: &dockerfile.Record{},
		UID: mode, Limits: sandbox.Limits{DiskBytes: 32 << 30}}
	o.FileDir, o.Dockerfile = image.HostPath(filepath.Dir(filepath.Join(dir, c.file))), filepath.Base(c.file)
	for k, v := range c.secrets {
		o.Secrets[k] = []byte(v)
	}
	for k, v := range c.trees {
		o.Contexts[k] = treeOf(dir, v)
	}
	if c.ssh {
		o.SSH["default"] = image.HostPath(w.agent)
	}
	if c.network {
		rules, err := egress.ParseRules([]string{"127.0.0.1"}, true)
		if err != nil {
			t.Fatal(err)
		}
		g := egress.New(egress.Config{Rules: rules})
		defer g.Close()
		o.Network, o.Egress = sandbox.NetAllowlist, g
	}
	im, err := dockerfile.Build(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	again, err := dockerfile.Build(t.Context(), o)
	if err != nil || again.ID != im.ID {
		t.Errorf("again: %v, %s and %s", err, im.ID, again.ID)
	}
	for _, s := range o.Record.Steps {
		if s.Key != "" && !s.Cached {
			t.Errorf("a second build does line %d again: %s", s.Line, s.Code)
		}
	}
	v, err := w.store.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	run = map[string]bool{}
	ran := map[image.LayerID]bool{}
	for _, s := range o.Record.Steps {
		if strings.HasPrefix(strings.ToUpper(s.Code), "RUN") {
			ran[s.Layer] = true
		}
	}
	names = &tree{}
	v.Walk(".", func(e image.Entry) error {
		file := string(v.Layer(e.Path)) + e.Path
		if e.Hardlink != "" {
			file = string(v.Layer(e.Path)) + e.Hardlink
		}
		names.add(e, file)
		run[e.Path] = ran[v.Layer(e.Path)]
		return nil
	})
	return im, names, run
}

func treeOf(dir, v string) string {
	if strings.Contains(v, "://") {
		return v
	}
	return filepath.Join(dir, v)
}

// buildkit builds a case in the engine, without its cache, and reads the tree.
func (w *corpus) buildkit(t *testing.T, c corpusCase, dir string) *tree {
	t.Helper()
	tag := corpusBase + "-" + c.name
	args := []string{"buildx", "build", "-f", filepath.Join(dir, c.file)}
	for k, v := range c.args {
		args = append(args, "--build-arg", k+"="+v)
	}
	for k, v := range c.secrets {
		f := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(f, []byte(v), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--secret", "id="+k+",src="+f)
	}
	for k, v := range c.trees {
		args = append(args, "--build-context", k+"="+treeOf(dir, v))
	}
	if c.ssh {
		args = append(args, "--ssh", "default="+w.agent)
	}
	if c.target != "" {
		args = append(args, "--target", c.target)
	}
	// The engine's exporter of images leaves attributes out, its exporter of
	// trees the configuration: the second build is all cache.
	t.Cleanup(func() { exec.Command("docker", "rmi", "-f", tag).Run() })
	docker(t, slices.Concat(args, []string{"--no-cache", "-t", tag, dir})...)
	save := filepath.Join(t.TempDir(), "tree.tar")
	docker(t, slices.Concat(args, []string{"-o", "type=tar,dest=" + save, dir})...)
	f, err := os.Open(save)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer os.Remove(save)
	return readTree(t, f)
}
