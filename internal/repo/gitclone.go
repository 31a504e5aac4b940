package repo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// CloneConfig says what to clone.
type CloneConfig struct {
	URL    string
	Dir    string // is made: a bare repository
	Branch string // or tag; empty: the remote's HEAD
	Depth  int    // 0: the whole history
	// Env lets credentials and proxies of the caller through, and nothing else
	// of the process: SSH_AUTH_SOCK, HTTPS_PROXY, GIT_SSL_CAINFO, HOME for a
	// .netrc. None of it is written anywhere.
	Env []string
}

// scpLike is ssh's short form, "git@host:path".
var scpLike = regexp.MustCompile(`^[A-Za-z0-9._-]+(@[A-Za-z0-9._-]+)?:[^/]`)

// Scheme is the protocol by which git would reach a URL; not ok: it is none
// that a repository is cloned from here. Helpers of git that run programs
// ("ext::") are never.
func Scheme(raw string) (scheme string, ok bool) {
	if strings.HasPrefix(raw, "-") || strings.Contains(raw, "::") || strings.ContainsAny(raw, "\n\r\x00") {
		return "", false
	}
	if u, err := url.Parse(raw); err == nil && u.Scheme != "" && strings.Contains(raw, "://") {
		return u.Scheme, slices.Contains([]string{"https", "http", "ssh", "git", "file"}, u.Scheme) && !strings.HasPrefix(u.Host, "-")
	}
	return "ssh", scpLike.MatchString(raw)
}

// CleanURL is a URL without the credentials in it.
func CleanURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User == nil {
		return raw
	}
	if u.Scheme == "ssh" { // its name is no secret and belongs to the address
		u.User = url.User(u.User.Username())
	} else {
		u.User = nil
	}
	return u.String()
}

// CloneGit makes a bare clone, without templates, hooks, submodules or files of
// a work tree. Only the URL's own protocol is spoken, also after a redirection.
func CloneGit(ctx context.Context, c CloneConfig) error {
	scheme, ok := Scheme(c.URL)
	if !ok {
		return fmt.Errorf("clone %q: not a URL that is cloned from (https, ssh, http, git, file, or user@host:path)", CleanURL(c.URL))
	}
	program, err := exec.LookPath("git")
	if err != nil {
		return fmt.Errorf("clone %s: %w (install git)", CleanURL(c.URL), err)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fmt.Errorf("clone %s: %w", CleanURL(c.URL), err)
	}
	g := &Git{Dir: filepath.Dir(dir), program: program}
	args := []string{"-c", "protocol." + scheme + ".allow=always", "clone", "-q", "--bare", "--template=", "--no-local", "--no-recurse-submodules"}
	if c.Branch != "" {
		args = append(args, "--branch="+c.Branch)
	}
	if c.Depth > 0 {
		args = append(args, "--depth="+strconv.Itoa(c.Depth))
	}
	cmd := g.command(ctx, append(args, "--", c.URL, dir)...)
	cmd.Env = append(slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "GIT_DIR=") }),
		"GIT_SSH_COMMAND=ssh -oBatchMode=yes -oConnectTimeout=30")
	cmd.Env = append(cmd.Env, c.Env...)
	var stderr tail
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("clone %s: %w: %s", CleanURL(c.URL), err, unsecret(stderr.text(), c.URL))
	}
	return nil
}

// unsecret takes a URL's password out of what git says.
func unsecret(text, raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.User == nil {
		return text
	}
	text = strings.ReplaceAll(text, u.User.String()+"@", "")
	if p, ok := u.User.Password(); ok && p != "" {
		text = strings.ReplaceAll(text, p, "…")
	}
	return text
}

// Tracked are the files of the index, and the untracked ones that no ignore
// file names, relative to the work tree and sorted; submodules are among the
// tracked with a trailing slash.
func (g *Git) Tracked(ctx context.Context) (tracked, others []string, err error) {
	if g.WorkTree == "" {
		return nil, nil, errors.New("git ls-files: the repository is bare")
	}
	if err := g.borrowIndex(); err != nil {
		return nil, nil, fmt.Errorf("git ls-files: %w", err)
	}
	at := []string{"--work-tree=" + g.WorkTree, "-C", g.WorkTree, "ls-files", "-z"}
	out, err := g.Run(ctx, append(at, "--stage")...)
	if err != nil {
		return nil, nil, err
	}
	for rec := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		meta, name, ok := strings.Cut(rec, "\t")
		if !ok {
			continue
		}
		if strings.HasPrefix(meta, "160000 ") {
			name += "/"
		}
		tracked = append(tracked, name)
	}
	slices.Sort(tracked)
	tracked = slices.Compact(tracked) // a conflict has a path up to three times
	out, err = g.Run(ctx, append(at, "--others", "--exclude-standard")...)
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name != "" {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return tracked, others, err
}
