package swebench

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"assay/internal/importer"
)

// environment is where an instance's tree comes from.
type environment struct {
	image    string // published; empty: files build one
	fallback string
	files    []importer.File

	placed    bool     // the tests lie below tests/repo, whole
	testFiles []string // that the test patch leaves, in its order
	oldTests  []string // that the test patch finds
}

const (
	defaultBase = "debian:bookworm-slim"
	maxTree     = 2 << 30 // bytes of a repository's tree
	maxBlob     = 512 << 20
	treeFile    = "tree.tar"
)

// imageName is the published image of an instance, as SWE-bench names it.
func imageName(id string) string {
	return "swebench/sweb.eval.x86_64." + strings.ReplaceAll(strings.ToLower(id), "__", "_1776_") + ":latest"
}

// orphan makes of a tree a repository of one commit, whose date and author
// tell nothing.
const orphan = `git init -q . && git add -A -f . && \
    git -c user.name=base -c user.email=base@localhost commit -q -m base --date=2000-01-01T00:00:00Z && \
    git config user.name agent && git config user.email agent@localhost`

func (im Importer) environment(ctx context.Context, s source) (environment, error) {
	var env environment
	patched, err := parsePatch(s.row.TestPatch)
	if err != nil {
		return env, fmt.Errorf("test_patch: %w", err)
	}
	if _, err := parsePatch(s.row.Patch); err != nil {
		return env, fmt.Errorf("patch: %w", err)
	}
	for _, f := range patched {
		if !f.IsDelete {
			env.testFiles = append(env.testFiles, f.NewName)
		}
		if !f.IsNew {
			env.oldTests = append(env.oldTests, f.OldName)
		}
	}
	switch {
	case im.Smith && im.Repos == "":
		return im.broken(s, env)
	case im.Repos != "":
		return im.fromRepo(ctx, s, env, patched)
	case im.Clone != "":
		return im.cloned(s, env)
	case len(s.docker) > 0:
		env.files = s.docker
		return env, nil
	}
	if env.image = s.row.Image; env.image == "" {
		env.image = imageName(s.row.ID)
	}
	return env, nil
}

func (im Importer) base() (from, fallback string) {
	if im.Base == "" {
		return defaultBase, "host"
	}
	if im.Base == "host" {
		return defaultBase, "host"
	}
	return im.Base, ""
}

func dockerfile(lines ...string) importer.File {
	return importer.File{Path: "environment/Dockerfile", Data: []byte(strings.Join(lines, "\n") + "\n")}
}

// broken is SWE-smith's: the image has the healthy tree, and the bug is laid on
// it before anybody looks; its history goes, for it tells what was there.
func (im Importer) broken(s source, env environment) (environment, error) {
	image := s.row.Image
	if image == "" {
		return env, errors.New("field image_name is missing: its tree is the image's")
	}
	if strings.ContainsAny(image, " \n\t\\") {
		return env, fmt.Errorf("image_name %q is no name of an image", image)
	}
	env.files = []importer.File{
		dockerfile("FROM "+image, "WORKDIR "+workdir, "COPY bug.patch /tmp/bug.patch",
			"RUN git apply /tmp/bug.patch && rm -rf /tmp/bug.patch .git && "+orphan),
		{Path: "environment/bug.patch", Data: []byte(s.row.Patch)},
	}
	return env, nil
}

var wholeCommit = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// cloned builds the tree from a server, at the one commit.
func (im Importer) cloned(s source, env environment) (environment, error) {
	r := s.row
	if !wholeCommit.MatchString(r.BaseCommit) {
		return env, fmt.Errorf("base_commit %q is not a whole commit id", r.BaseCommit)
	}
	url := strings.TrimSuffix(im.Clone, "/") + "/" + r.Repo
	if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9_.:/@~-]+$`).MatchString(url) {
		return env, fmt.Errorf("%q is no URL of a repository", url)
	}
	from, fallback := im.base()
	env.fallback = fallback
	env.files = []importer.File{dockerfile("FROM "+from, "WORKDIR "+workdir,
		"RUN git init -q . && git fetch -q --depth 1 "+url+" "+r.BaseCommit+" && git checkout -q FETCH_HEAD && rm -rf .git && "+orphan)}
	return env, nil
}

// fromRepo takes the tree at base_commit out of the user's clone.
func (im Importer) fromRepo(ctx context.Context, s source, env environment, patched []*gitdiff.File) (environment, error) {
	r := s.row
	dir, err := im.clone(r.Repo)
	if err != nil {
		return env, err
	}
	if !wholeCommit.MatchString(r.BaseCommit) {
		return env, fmt.Errorf("base_commit %q is not a whole commit id", r.BaseCommit)
	}
	t, err := readTree(ctx, dir, r.BaseCommit)
	if err != nil {
		return env, fmt.Errorf("%s at %s: %w", dir, r.BaseCommit, err)
	}
	if im.Smith {
		if err := t.lay(r.Patch); err != nil {
			return env, fmt.Errorf("patch: %w", err)
		}
	}
	packed, err := t.tar()
	if err != nil {
		return env, err
	}
	from, fallback := im.base()
	env.fallback, env.placed = fallback, len(patched) > 0
	env.files = []importer.File{
		dockerfile("FROM "+from, "WORKDIR "+workdir, "ADD "+treeFile+" "+workdir+"/", "RUN "+orphan),
		{Path: "environment/" + treeFile, Data: packed},
	}
	if im.Smith { // its tests are in the tree
		for _, name := range filesOf(r) {
			if b, ok := t.files[name]; ok {
				env.placed = true
				env.files = append(env.files, importer.File{Path: "tests/" + placedDir + "/" + name, Data: b.data, Exec: t.exec(name)})
			}
		}
	}
	for _, f := range patched {
		if f.IsDelete {
			continue
		}
		data, err := t.patched(f)
		if err != nil {
			return env, fmt.Errorf("test_patch: %s: %w", f.NewName, err)
		}
		env.files = append(env.files, importer.File{Path: "tests/" + placedDir + "/" + f.NewName, Data: data, Exec: f.NewMode&0o111 != 0 || f.NewMode == 0 && t.exec(f.OldName)})
	}
	return env, nil
}

// clone finds the user's clone of a repository.
func (im Importer) clone(repo string) (string, error) {
	if !regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$`).MatchString(repo) || strings.Contains(repo, "..") {
		return "", fmt.Errorf("repo %q is not OWNER/NAME", repo)
	}
	_, name, _ := strings.Cut(repo, "/")
	var tried []string
	for _, dir := range []string{strings.ReplaceAll(repo, "/", "__"), repo, name} {
		for _, end := range []string{"", ".git"} {
			p := filepath.Join(im.Repos, filepath.FromSlash(dir)+end)
			if info, err := os.Stat(p); err == nil && info.IsDir() {
				return p, nil
			}
			tried = append(tried, p)
		}
	}
	return "", fmt.Errorf("no clone of %s: looked for %s", repo, strings.Join(tried, ", "))
}

// parsePatch understands a diff; an empty one names no file.
func parsePatch(text string) (files []*gitdiff.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			files, err = nil, fmt.Errorf("not a diff: %v", r)
		}
	}()
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if files, _, err = gitdiff.Parse(strings.NewReader(text)); err != nil {
		return nil, fmt.Errorf("not a diff: %w", err)
	}
	if len(files) == 0 {
		return nil, errors.New("not a diff: it names no file")
	}
	for _, f := range files {
		for _, n := range []string{f.OldName, f.NewName} {
			if n != "" && (!fs.ValidPath(n) || strings.ContainsAny(n, "\n\r\x00")) {
				return nil, fmt.Errorf("it names %q, which is no path below the repository", n)
			}
		}
	}
	return files, nil
}

// tree is a commit's files.
type tree struct {
	names []string
	files map[string]blob
}

type blob struct {
	mode string // git's: 100644, 100755, 120000
	data []byte
}

func (t *tree) exec(name string) bool { return t.files[name].mode == "100755" }

// git runs git's plumbing on a repository of other people: no configuration
// but its own, no hooks, no network.
func git(ctx context.Context, dir string, stdin []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-C", dir}, args...)...)
	cmd.Env = []string{"PATH=" + defaultPath, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "LC_ALL=C"}
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(errs.String())
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, said[:min(len(said), 300)])
	}
	return out.Bytes(), nil
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func readTree(ctx context.Context, dir, commit string) (*tree, error) {
	list, err := git(ctx, dir, nil, "ls-tree", "-r", "-z", "-l", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	t := &tree{files: map[string]blob{}}
	var ids bytes.Buffer
	var sizes []int64
	total := int64(0)
	for _, e := range strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		head, name, ok := strings.Cut(e, "\t")
		f := strings.Fields(head)
		if !ok || len(f) != 4 {
			return nil, fmt.Errorf("git ls-tree said %q", e)
		}
		if f[1] != "blob" { // a submodule: nothing of it is in the repository
			continue
		}
		size, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil || !fs.ValidPath(name) {
			return nil, fmt.Errorf("git ls-tree said %q", e)
		}
		if total += size; size > maxBlob || total > maxTree {
			return nil, fmt.Errorf("%s: the tree is larger than %d MiB, or one file than %d", name, maxTree>>20, maxBlob>>20)
		}
		t.names = append(t.names, name)
		t.files[name] = blob{mode: f[0]}
		sizes = append(sizes, size)
		ids.WriteString(f[2] + "\n")
	}
	data, err := git(ctx, dir, ids.Bytes(), "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	for i, name := range t.names {
		end := bytes.IndexByte(data, '\n')
		if end < 0 || int64(len(data)) < int64(end)+2+sizes[i] {
			return nil, errors.New("git cat-file broke off")
		}
		b := t.files[name]
		b.data = data[end+1 : int64(end)+1+sizes[i]]
		t.files[name] = b
		data = data[int64(end)+2+sizes[i]:]
	}
	return t, nil
}

// patched is a file of a diff as it is after it.
func (t *tree) patched(f *gitdiff.File) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it cannot be applied: %v", r)
		}
	}()
	var old []byte
	if !f.IsNew {
		b, ok := t.files[f.OldName]
		if !ok {
			return nil, fmt.Errorf("there is no %s at base_commit", f.OldName)
		}
		old = b.data
	}
	var out bytes.Buffer
	if err := gitdiff.Apply(&out, bytes.NewReader(old), f); err != nil {
		return nil, fmt.Errorf("it does not apply at base_commit: %w", err)
	}
	return out.Bytes(), nil
}

// lay applies a whole diff to the tree.
func (t *tree) lay(patch string) error {
	files, err := parsePatch(patch)
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := t.patched(f)
		if err != nil && !f.IsDelete {
			return fmt.Errorf("%s: %w", f.NewName, err)
		}
		mode := t.files[f.OldName].mode
		if f.IsDelete || f.IsRename {
			delete(t.files, f.OldName)
			t.names = slices.DeleteFunc(t.names, func(n string) bool { return n == f.OldName })
		}
		if f.IsDelete {
			continue
		}
		if f.NewMode != 0 {
			mode = fmt.Sprintf("%o", uint32(f.NewMode))
		}
		if mode == "" {
			mode = "100644"
		}
		if _, there := t.files[f.NewName]; !there {
			t.names = append(t.names, f.NewName)
		}
		t.files[f.NewName] = blob{mode, data}
	}
	return nil
}

// tar packs the tree; the same tree gives the same bytes.
func (t *tree) tar() ([]byte, error) {
	slices.Sort(t.names)
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	epoch := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range t.names {
		b := t.files[name]
		h := &tar.Header{Name: name, ModTime: epoch, Mode: 0o644, Size: int64(len(b.data)), Typeflag: tar.TypeReg}
		switch {
		case strings.HasSuffix(b.mode, "755"):
			h.Mode = 0o755
		case b.mode == "120000":
			h.Typeflag, h.Linkname, h.Size, h.Mode = tar.TypeSymlink, string(b.data), 0, 0o777
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(b.data); err != nil {
				return nil, err
			}
		}
	}
	return buf.Bytes(), w.Close()
}
