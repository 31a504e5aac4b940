package harbor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/importer"
)

// Caps of one data set.
const (
	maxBytes   = 4 << 30 // of its files, and of what is fetched for them
	maxBlob    = 512 << 20
	maxEntries = 500_000
	maxLinks   = 16 // links that lead to links
)

// Fetcher brings data sets into directories.
type Fetcher struct {
	Env   []string // of git: PATH, HOME, proxies
	Local bool     // the registry is a file of the user's own
	Base  string   // what relative paths of a local registry are relative to
	Say   func(format string, args ...any)
}

// lfs begins a file that stands for one which is elsewhere.
const lfs = "version https://git-lfs.github.com/spec/v1\n"

// Key tells a data set's content apart, as far as the registry says it.
func (d Dataset) Key() string {
	b, err := json.Marshal(d)
	if err != nil {
		panic(err) // plain text
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Import writes every task of d as a directory below out.
func (f *Fetcher) Import(ctx context.Context, d Dataset, out string, opts importer.Options) (importer.Summary, error) {
	fail := func(err error) (importer.Summary, error) {
		return importer.Summary{Dir: out}, fmt.Errorf("import %s: %w", d.ID(), err)
	}
	if len(d.Tasks) == 0 {
		return fail(errors.New("it has no task"))
	}
	type place struct{ url, commit string }
	var places []place
	by := map[place][]Task{}
	for _, t := range d.Tasks {
		if err := t.check(f.Local); err != nil {
			return fail(fmt.Errorf("task %s: %w", t.Name, err))
		}
		p := place{t.GitURL, t.Commit}
		if by[p] == nil {
			places = append(places, p)
		}
		by[p] = append(by[p], t)
	}
	got := map[string]importer.Dir{}
	left := int64(maxBytes)
	for _, p := range places {
		var err error
		if p.url == "" {
			err = f.local(by[p], got, &left)
		} else {
			err = f.repository(ctx, p.url, p.commit, by[p], got, &left)
		}
		if err != nil {
			return fail(err)
		}
	}
	var dirs []importer.Dir
	for _, t := range d.Tasks {
		dirs = append(dirs, got[t.Name])
	}
	return importer.WriteAll(ctx, out, dirs, opts)
}

// local reads tasks that are directories of this machine.
func (f *Fetcher) local(tasks []Task, got map[string]importer.Dir, left *int64) error {
	for _, t := range tasks {
		dir := t.Path
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(f.Base, dir)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return fmt.Errorf("task %s: %w", t.Name, err)
		}
		d := importer.Dir{Name: t.Name}
		err = fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := root.Stat(p) // a link that leaves the task is an error
			if err != nil || !info.Mode().IsRegular() {
				return errors.Join(err, fmt.Errorf("%s is no plain file of the task", p))
			}
			if *left -= info.Size(); info.Size() > maxBlob || *left < 0 {
				return fmt.Errorf("%s: the data set is too large", p)
			}
			b, err := root.ReadFile(p)
			d.Files = append(d.Files, importer.File{Path: p, Data: b, Exec: info.Mode()&0o100 != 0})
			return err
		})
		root.Close()
		if err != nil {
			return fmt.Errorf("task %s: %w", t.Name, err)
		}
		got[t.Name] = d
	}
	return nil
}

// clone is a bare repository with one commit of another.
type clone struct {
	f   *Fetcher
	dir string
}

// repository reads the tasks of one commit.
func (f *Fetcher) repository(ctx context.Context, url, commit string, tasks []Task, got map[string]importer.Dir, left *int64) error {
	temp, err := os.MkdirTemp("", "assay-registry-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	c := clone{f, temp}
	if f.Say != nil {
		f.Say("fetch %s", url)
	}
	head, err := c.fetch(ctx, url, commit)
	if err != nil {
		return err
	}
	entries, err := c.list(ctx, head, tasks)
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	if err := c.blobs(ctx, head, entries, left); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	for _, t := range tasks {
		p, err := inside(t.Path)
		if err != nil {
			return fmt.Errorf("task %s: %w", t.Name, err)
		}
		d, err := take(t.Name, p, entries)
		if err != nil {
			return fmt.Errorf("task %s: %s at %s: %w", t.Name, url, head, err)
		}
		if f.Say != nil {
			for _, file := range d.Files {
				if bytes.HasPrefix(file.Data, []byte(lfs)) {
					f.Say("task %s: %s stands for a file in Git LFS, which is not fetched", t.Name, file.Path)
				}
			}
		}
		got[t.Name] = d
	}
	return nil
}

// git runs git in the clone. stdin may be nil.
func (c clone) git(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := []string{"-C", c.dir, "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "fetch.recurseSubmodules=false",
		"-c", "transfer.fsckObjects=true", "-c", "fetch.fsck.zeroPaddedFilemode=ignore", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
		"-c", "core.fsmonitor=false", "-c", "credential.interactive=false"}
	cmd := exec.CommandContext(ctx, "git", append(all, args...)...)
	cmd.Env = append(slices.Clone(c.f.Env), "GIT_TERMINAL_PROMPT=0", "GIT_LFS_SKIP_SMUDGE=1", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_ALLOW_PROTOCOL=https:http:file:ssh", "LC_ALL=C", "GIT_DIR="+c.dir)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	said := &tail{max: 2000}
	cmd.Stdout, cmd.Stderr = &out, said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("git: %w", err)
	}
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() { // git itself has no bound for what a server sends
		defer close(watched)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if size(c.dir) > maxBytes {
					cancel(fmt.Errorf("the server sent more than %d GiB", maxBytes>>30))
				}
			}
		}
	}()
	err := cmd.Wait()
	close(done)
	<-watched
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(said.b)))
	}
	return out.Bytes(), nil
}

// tail keeps the end of what is written.
type tail struct {
	b   []byte
	max int
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > t.max {
		t.b = t.b[len(t.b)-t.max:]
	}
	return len(p), nil
}

func size(dir string) (n int64) {
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil // what vanishes meanwhile counts nothing
	})
	return n
}

// fetch brings one commit, its files later where the server can leave them out.
func (c clone) fetch(ctx context.Context, url, commit string) (head string, err error) {
	if _, err := c.git(ctx, nil, "init", "-q", "--bare", c.dir); err != nil {
		return "", err
	}
	if _, err := c.git(ctx, nil, "remote", "add", "origin", url); err != nil {
		return "", err
	}
	want := commit
	if want == "" {
		want = "HEAD"
	}
	args := []string{"fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules", "--filter=blob:none", "origin", want}
	if _, err = c.git(ctx, nil, args...); err != nil && ctx.Err() == nil {
		// Some servers refuse a filter, or a commit that no branch ends with.
		args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "--filter") })
		if _, err = c.git(ctx, nil, args...); err != nil && wholeID.MatchString(commit) && ctx.Err() == nil {
			_, err = c.git(ctx, nil, "fetch", "-q", "--no-tags", "--no-recurse-submodules", "origin", "+refs/heads/*:refs/heads/*")
		}
	}
	if err != nil {
		return "", fmt.Errorf("fetch %s of %s: %w", want, url, err)
	}
	ref := "FETCH_HEAD"
	if wholeID.MatchString(commit) {
		ref = commit
	}
	b, err := c.git(ctx, nil, "rev-parse", "--verify", "-q", ref+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("%s has no commit %s: %w", url, want, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// entry is a file of a commit.
type entry struct {
	mode, id string
	data     []byte
}

// list names the files below the tasks' paths.
func (c clone) list(ctx context.Context, head string, tasks []Task) (map[string]*entry, error) {
	args := []string{"ls-tree", "-r", "-z", "--full-tree", head, "--"}
	whole := false
	for _, t := range tasks {
		p, err := inside(t.Path)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Name, err)
		}
		whole = whole || p == "."
		args = append(args, p+"/")
	}
	if whole || len(args) > 2000 {
		args = args[:6]
	}
	b, err := c.git(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	all := map[string]*entry{}
	for _, line := range strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00") {
		head, name, ok := strings.Cut(line, "\t")
		f := strings.Fields(head)
		if !ok || len(f) != 3 {
			continue // an empty tree
		}
		if !fs.ValidPath(name) || len(all) == maxEntries {
			return nil, fmt.Errorf("a file %q, or more than %d", name, maxEntries)
		}
		all[name] = &entry{mode: f[0], id: f[2]}
	}
	return all, nil
}

// blobs reads the files' contents, after those that are missing were fetched.
func (c clone) blobs(ctx context.Context, head string, all map[string]*entry, left *int64) error {
	var ids []string
	for _, e := range all {
		if e.mode != "160000" {
			ids = append(ids, e.id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return nil
	}
	input := []byte(strings.Join(ids, "\n") + "\n")
	b, err := c.git(ctx, nil, "rev-list", "--objects", "--no-object-names", "--missing=print", head)
	if err != nil {
		return err
	}
	var missing []string
	for line := range strings.Lines(string(b)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "?"); ok {
			if _, wanted := slices.BinarySearch(ids, id); wanted {
				missing = append(missing, id)
			}
		}
	}
	if len(missing) > 0 {
		_, err := c.git(ctx, []byte(strings.Join(missing, "\n")+"\n"), "fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules",
			"--no-write-fetch-head", "--filter=blob:none", "origin", "--stdin")
		if err != nil {
			return err
		}
	}
	if b, err = c.git(ctx, input, "cat-file", "--batch-check"); err != nil {
		return err
	}
	sizes := map[string]int64{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[1] != "blob" {
			return fmt.Errorf("the server did not send %s", f[0])
		}
		n, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return err
		}
		if sizes[f[0]] = n; n > maxBlob {
			return fmt.Errorf("a file of %d bytes (at most %d)", n, int64(maxBlob))
		}
		if *left -= n; *left < 0 {
			return fmt.Errorf("the data set is larger than %d GiB", maxBytes>>30)
		}
	}
	return c.contents(ctx, ids, sizes, all)
}

func (c clone) contents(ctx context.Context, ids []string, sizes map[string]int64, all map[string]*entry) error {
	b, err := c.git(ctx, []byte(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch")
	if err != nil {
		return err
	}
	data := map[string][]byte{}
	for _, id := range ids {
		end := bytes.IndexByte(b, '\n')
		n := sizes[id]
		if end < 0 || int64(len(b)) < int64(end)+2+n {
			return errors.New("git cat-file broke off")
		}
		data[id] = b[end+1 : int64(end)+1+n]
		b = b[int64(end)+2+n:]
	}
	for _, e := range all {
		e.data = data[e.id]
	}
	return nil
}

// take makes one task of the files below its path. Links within the task
// become what they lead to; any other is an error.
func take(name, root string, all map[string]*entry) (importer.Dir, error) {
	d := importer.Dir{Name: name}
	t := taker{all: all, root: root}
	prefix := root + "/"
	if root == "." {
		prefix = ""
	}
	for _, p := range sortedNames(all) {
		rel, ok := strings.CutPrefix(p, prefix)
		if !ok {
			continue
		}
		if err := t.add(&d, p, rel, 0); err != nil {
			return d, err
		}
	}
	if len(d.Files) == 0 {
		return d, fmt.Errorf("there is no directory %s", root)
	}
	return d, nil
}

func sortedNames(all map[string]*entry) []string {
	names := make([]string, 0, len(all))
	for p := range all {
		names = append(names, p)
	}
	slices.Sort(names)
	return names
}

type taker struct {
	all  map[string]*entry
	root string
}

// add puts the entry at p into the task as rel.
func (t taker) add(d *importer.Dir, p, rel string, depth int) error {
	e := t.all[p]
	switch e.mode {
	case "160000":
		return fmt.Errorf("%s is a submodule, which is not fetched", p)
	case "120000":
	default:
		d.Files = append(d.Files, importer.File{Path: rel, Data: e.data, Exec: e.mode == "100755"})
		return nil
	}
	target := path.Join(path.Dir(p), string(e.data))
	if strings.HasPrefix(string(e.data), "/") || t.root != "." && target != t.root && !strings.HasPrefix(target, t.root+"/") || strings.HasPrefix(target, "../") || target == ".." {
		return fmt.Errorf("the link %s leads out of the task", p)
	}
	if depth == maxLinks || len(d.Files) > maxEntries {
		return fmt.Errorf("the link %s leads in a circle", p)
	}
	if t.all[target] != nil {
		return t.add(d, target, rel, depth+1)
	}
	found := false
	for _, q := range sortedNames(t.all) {
		if below, ok := strings.CutPrefix(q, target+"/"); ok {
			found = true
			if strings.HasPrefix(p, target+"/") {
				return fmt.Errorf("the link %s leads in a circle", p)
			}
			if err := t.add(d, q, rel+"/"+below, depth+1); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("the link %s leads to nothing", p)
	}
	return nil
}
