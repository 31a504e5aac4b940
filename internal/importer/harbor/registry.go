// Package harbor brings data sets that Harbor's registry file names: tasks
// by git repository, commit and path.
//
// A registry and its repositories are other people's. Nothing is checked out:
// one commit is fetched, without tags, submodules and hooks, and its files are
// read by git's plumbing, so that no filter and no Git LFS runs; paths, links,
// counts and sizes are checked before a byte is written. It never runs
// anything of a repository, and never fetches anything that is here already.
package harbor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Default is where Harbor's own registry file is.
const Default = "https://raw.githubusercontent.com/laude-institute/harbor/main/registry.json"

const (
	maxRegistry = 64 << 20 // bytes of the file
	maxTasks    = 20_000   // of a data set
	askFor      = time.Minute
)

// Dataset is one version of a data set.
type Dataset struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
	Tasks       []Task `json:"tasks"`
}

// Task is one task of a data set: in a git repository, or, where it names none,
// in a directory of this machine.
type Task struct {
	Name   string `json:"name"`
	GitURL string `json:"git_url,omitempty"`
	Commit string `json:"git_commit_id,omitempty"` // empty: the head
	Path   string `json:"path"`
}

// ID is "NAME@VERSION".
func (d Dataset) ID() string { return d.Name + "@" + d.Version }

// Parse reads a registry file: a list of data sets. Keys that it does not know
// are other versions', and no fault.
func Parse(data []byte) ([]Dataset, error) {
	var all []Dataset
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("not a registry of Harbor's: %w", err)
	}
	for _, d := range all {
		if d.Name == "" || d.Version == "" || len(d.Tasks) > maxTasks {
			return nil, fmt.Errorf("data set %q@%q: no name, no version, or more than %d tasks", d.Name, d.Version, maxTasks)
		}
	}
	return all, nil
}

// Read reads a registry file from a path or a URL.
func Read(ctx context.Context, client *http.Client, src string) ([]byte, error) {
	if !IsURL(src) {
		f, err := os.Open(src)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return capped(f, src)
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, src, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", src, res.Status)
	}
	return capped(res.Body, src)
}

// IsURL tells a URL from a path.
func IsURL(src string) bool {
	return strings.HasPrefix(src, "https://") || strings.HasPrefix(src, "http://")
}

func capped(r io.Reader, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxRegistry+1))
	if err == nil && len(b) > maxRegistry {
		err = fmt.Errorf("%s: larger than %d MiB", name, maxRegistry>>20)
	}
	return b, err
}

// Find picks NAME@VERSION. Of NAME alone it is, as Harbor has it, the version
// "head", else the highest, else the last by name.
func Find(all []Dataset, spec string) (Dataset, error) {
	name, version, fixed := strings.Cut(spec, "@")
	var have []Dataset
	var names []string
	for _, d := range all {
		if d.Name == name {
			have = append(have, d)
		}
		names = append(names, d.ID())
	}
	if len(have) == 0 {
		return Dataset{}, fmt.Errorf("the registry has no data set %q; it has %s", name, few(names))
	}
	if fixed {
		names = nil
		for _, d := range have {
			if d.Version == version {
				return d, nil
			}
			names = append(names, d.ID())
		}
		return Dataset{}, fmt.Errorf("the registry has no %s; it has %s", spec, few(names))
	}
	best := slices.MaxFunc(have, func(a, b Dataset) int { return compareVersions(a.Version, b.Version) })
	return best, nil
}

func few(names []string) string {
	const shown = 10
	slices.Sort(names)
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// release matches versions of numbers, with whatever follows them.
var release = regexp.MustCompile(`^v?(\d+(?:\.\d+)*)(.*)$`)

// compareVersions orders "head" above numbers, these by their parts, and
// numbers above names; what follows a number (rc1, -beta) puts it below.
func compareVersions(a, b string) int {
	if rank(a) != rank(b) {
		return rank(a) - rank(b)
	}
	x, y := release.FindStringSubmatch(a), release.FindStringSubmatch(b)
	if x == nil || y == nil {
		return strings.Compare(a, b)
	}
	p, q := strings.Split(x[1], "."), strings.Split(y[1], ".")
	for i := range max(len(p), len(q)) {
		if c := part(p, i) - part(q, i); c != 0 {
			return c
		}
	}
	switch {
	case x[2] == "" && y[2] != "":
		return 1
	case x[2] != "" && y[2] == "":
		return -1
	}
	return strings.Compare(x[2], y[2])
}

func rank(v string) int {
	switch {
	case v == "head":
		return 2
	case release.MatchString(v):
		return 1
	}
	return 0
}

func part(all []string, i int) int {
	if i >= len(all) {
		return 0
	}
	n, err := strconv.Atoi(all[i])
	if err != nil { // more digits than a number holds
		return 1 << 30
	}
	return n
}

// inside is a task's path in its repository, clean and below it.
func inside(p string) (string, error) {
	if strings.HasPrefix(p, "/") || strings.ContainsAny(p, "\\\x00\n") {
		return "", fmt.Errorf("path %q does not stay within its repository", p)
	}
	clean := path.Clean(p)
	if p == "" || !fs.ValidPath(clean) {
		return "", fmt.Errorf("path %q does not stay within its repository", p)
	}
	return clean, nil
}

var (
	wholeID = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
	refName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,200}$`)
)

// check refuses what must not come near git's command line. local: the
// registry is the user's own file, and may name what this user can reach.
func (t Task) check(local bool) error {
	if t.GitURL == "" {
		if !local {
			return errors.New("a directory of this machine, in a registry that is not")
		}
		return nil
	}
	scheme, rest, ok := strings.Cut(t.GitURL, "://")
	switch {
	case !ok || rest == "" || strings.HasPrefix(rest, "-") || strings.ContainsAny(t.GitURL, " \t\n\x00"):
		return fmt.Errorf("git_url %q is no URL", t.GitURL)
	case scheme == "https" || scheme == "http":
	case local && (scheme == "file" || scheme == "ssh"):
	default:
		return fmt.Errorf("git_url %q: only https:// and http:// may be fetched, and file:// and ssh:// where the registry is a file of yours", t.GitURL)
	}
	if t.Commit != "" && !wholeID.MatchString(t.Commit) && (!refName.MatchString(t.Commit) || strings.Contains(t.Commit, "..")) {
		return fmt.Errorf("git_commit_id %q is neither a commit nor a name of one", t.Commit)
	}
	return nil
}
