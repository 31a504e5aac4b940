package history

import (
	"context"
	"path"
	"strings"

	"assay/internal/forge"
	"assay/internal/image"
)

// Caps of a task that begins with another tree than the healthy one: its layer
// holds all that differs.
const (
	olderTries = 2000      // of a run: each costs a comparison of two whole trees
	olderFiles = 100       // that differ
	olderBytes = 512 << 10 // in them
)

// older is the candidate of a commit whose inverse does not apply any more: the
// agent begins with the code of before it, in the environment of today. What is
// built, asked for and said around the code stays as it is today: the
// environment was made for that, and no test reads the rest. Whether such a tree
// builds and passes, the forge sees when it runs gold. Tests are the commit's own.
func (x *miner) older(ctx context.Context, m *mined, patch map[string]change, source []*site, k known, why Reason) (proposal, Reason, error) {
	p := x.proposal(m)
	at := x.w.Env.Source.Commit
	if at == "" || m.reverting != nil || x.tried >= olderTries {
		return p, why, nil
	}
	x.tried++
	out, err := x.git.Run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options", at, m.parents[0])
	if ctx.Err() != nil {
		return p, "", context.Cause(ctx)
	}
	f := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if err != nil || len(f) < 2 {
		return p, why, nil
	}
	isTest := patterns(x.w.Env.Suite.TestFiles)
	size, files := 0, 0
	for i := 0; i+1 < len(f); i += 2 {
		head, name := strings.Fields(f[i]), f[i+1]
		if len(head) != 5 || !sayable(name) {
			return p, why, nil
		}
		if stays(name, isTest) {
			continue
		}
		if files++; files > olderFiles {
			return p, Far, nil
		}
		if special(head[0][1:]) || special(head[1]) {
			return p, why, nil
		}
		if head[4] == "D" {
			if _, err := x.w.Tree.Lstat(x.abs(name)); err == nil {
				p.Broken = append(p.Broken, forge.Edit{Path: x.abs(name)})
			}
			continue
		}
		b, ok, err := x.get(ctx, head[3])
		if err != nil || !ok {
			return p, why, err
		}
		if size += len(b); size > olderBytes {
			return p, Far, nil
		}
		if p.Broken, err = x.write(p.Broken, name, b); err != nil {
			return p, why, nil // something else stands at the path
		}
	}
	if ok, err := x.ahead(ctx, &p, m); !ok || err != nil {
		return p, why, err
	}
	p.Notes["base"] = "the code before the commit"
	p.Operators = []string{"whole-" + strings.TrimPrefix(p.Operators[0], "undo-")}
	p.files = nil // the suite knows the healthy tree's tests, not that one's
	var tests []change
	var mine []*site
	for _, t := range m.tests {
		c := patch[t.path]
		c.file = t
		tests = append(tests, c)
		mine = append(mine, &site{path: t.path})
	}
	p.Covering = x.covering(source, mine)
	x.word(&p, source, tests, patch, k)
	return p, "", nil
}

// stays reports whether a path is left as it is today in an older tree: what
// the environment was made of, and what stands beside the code.
func stays(name string, isTest func(string) bool) bool {
	switch classify(name, isTest) {
	case source, test, fixture:
		return false
	case other:
		return sideDir.MatchString(name)
	}
	return true
}

func special(mode string) bool { return mode == modeLink || mode == modeSubmodule }

// ahead are the commit's own sources, as gold, and its tests.
func (x *miner) ahead(ctx context.Context, p *proposal, m *mined) (ok bool, err error) {
	lay := func(to forge.Delta, f file) (forge.Delta, bool, error) {
		if f.status == 'D' {
			return append(to, forge.Edit{Path: x.abs(f.path)}), true, nil
		}
		if f.status == 'R' {
			to = append(to, forge.Edit{Path: x.abs(f.was)})
		}
		b, ok, err := x.get(ctx, f.blob)
		if !ok || err != nil {
			return to, false, err
		}
		to, err = x.write(to, f.path, b)
		return to, err == nil, nil
	}
	for _, f := range m.source {
		if p.Gold, ok, err = lay(p.Gold, f); !ok || err != nil {
			return false, err
		}
	}
	tests := 0
	for _, f := range m.tests {
		if f.status == 'D' || special(f.mode) {
			continue
		}
		if p.Tests, ok, err = lay(p.Tests, f); !ok || err != nil {
			return false, err
		}
		tests++
	}
	return tests > 0, nil
}

// write makes a path of the working directory a file with that content, and its
// directories where the healthy tree lacks them.
func (x *miner) write(d forge.Delta, name string, b []byte) (forge.Delta, error) {
	abs := x.abs(name)
	if e, err := x.w.Tree.Lstat(abs); err == nil && e.Type == image.TypeFile {
		e, err := forge.Rewrite(x.w.Tree, abs, b)
		return append(d, e), err
	}
	var missing []string
	up := path.Dir(abs)
	owner, err := x.w.Tree.Lstat(up)
	for ; err != nil && up != "/"; owner, err = x.w.Tree.Lstat(up) {
		missing = append(missing, up)
		up = path.Dir(up)
	}
	if err != nil {
		return d, err
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if !has(d, missing[i]) {
			d = append(d, forge.Edit{Path: missing[i], Type: image.TypeDir, Mode: 0o755, UID: owner.UID, GID: owner.GID})
		}
	}
	return append(d, forge.Edit{Path: abs, Type: image.TypeFile, Mode: 0o644, UID: owner.UID, GID: owner.GID, Data: b}), nil
}

func has(d forge.Delta, p string) bool {
	for _, e := range d {
		if e.Path == p {
			return true
		}
	}
	return false
}
