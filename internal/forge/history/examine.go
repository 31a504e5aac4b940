package history

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
	"assay/internal/image"
)

// site is one file of a commit beside the healthy tree's.
type site struct {
	change
	path    string // today's, relative to the working directory
	is, was []byte // after and before the commit
	now     []byte // in the healthy tree
	there   bool   // it is in the healthy tree
	broken  []byte // now, with the change taken back
	without bool   // broken is: no such file
}

// examine makes a candidate of a commit, or says why not.
func (x *miner) examine(ctx context.Context, m *mined, patch map[string]change) (proposal, Reason, error) {
	var none proposal
	if patch == nil {
		return none, Unreadable, nil
	}
	source, why, err := x.sources(ctx, m, patch)
	if why != "" || err != nil {
		return none, why, err
	}
	e := x.entities(ctx, source)
	if why := m.shaped(source, e); why != "" {
		return none, why, nil
	}
	p, why, err := x.inverse(ctx, m, patch, source, e)
	if why == Conflict || why == Gone || why == TestsGone {
		p, why, err = x.older(ctx, m, patch, source, e, why)
	}
	if why != "" || err != nil {
		return none, why, err
	}
	d := digest(p.Broken)
	if x.seen[d] {
		return none, Same, nil
	}
	x.seen[d] = true
	return p, "", nil
}

// inverse is the candidate that takes the change out of the healthy tree.
func (x *miner) inverse(ctx context.Context, m *mined, patch map[string]change, source []*site, k known) (proposal, Reason, error) {
	p := x.proposal(m)
	tests, why, err := x.tests(ctx, m, patch)
	if why != "" || err != nil {
		return p, why, err
	}
	if m.reverting == nil && !about(tests, source, k) {
		return p, TestsElse, nil
	}
	for _, s := range source {
		if why, err := x.takeBack(ctx, s); why != "" || err != nil {
			return p, why, err
		}
	}
	if why, err := x.hide(ctx, tests); why != "" || err != nil {
		return p, why, err
	}
	for _, s := range source {
		if err := x.lay(&p, s); err != nil {
			return p, "", err
		}
	}
	for _, t := range tests {
		if err := x.layTest(&p, t); err != nil {
			return p, "", err
		}
	}
	p.Covering = x.covering(source, tests)
	x.word(&p, source, changesOf(tests), patch, k)
	return p, "", nil
}

// sources reads the commit's sources and their counterparts of today, and
// leaves those that mean what they meant before.
func (x *miner) sources(ctx context.Context, m *mined, patch map[string]change) ([]*site, Reason, error) {
	var all []*site
	lines := 0
	for _, f := range m.source {
		c, ok := patch[f.path]
		if !ok && f.status == 'R' || f.status == 'D' && m.reverting == nil {
			continue // renamed as it was; or removed, which nobody tests
		}
		if c.binary {
			return nil, Binary, nil
		}
		c.file = f
		if lines += len(c.added) + len(c.removed); lines > x.g.Limits.filled().Lines {
			return nil, TooLarge, nil
		}
		s := &site{change: c, path: m.now[f.path]}
		if ok, err := x.fill(ctx, s); err != nil {
			return nil, "", err
		} else if !ok {
			return nil, Unreadable, nil
		}
		if f.status != 'A' && f.status != 'D' && cosmetic(f.path, s.was, s.is) {
			continue
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, Cosmetic, nil
	}
	return all, "", nil
}

// fill reads the three versions of a file.
func (x *miner) fill(ctx context.Context, s *site) (ok bool, err error) {
	if s.status != 'D' {
		if s.is, ok, err = x.get(ctx, s.blob); !ok || err != nil {
			return false, err
		}
	}
	if s.status != 'A' {
		if s.was, ok, err = x.get(ctx, s.old); !ok || err != nil {
			return false, err
		}
	}
	b, err := x.w.Tree.ReadFile(x.abs(s.path), maxBlob)
	s.now, s.there = b, err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if e, lerr := x.w.Tree.Lstat(x.abs(s.path)); lerr == nil && e.Type == image.TypeFile && !errors.Is(err, image.ErrCap) {
			return false, fmt.Errorf("healthy tree: %w", err) // the store is broken
		}
	}
	return true, nil
}

func (x *miner) abs(p string) string { return path.Join(x.w.Env.Workdir, p) }

// known are the names that a change is about.
type known struct {
	changed, fresh, gone []string
	only                 bool // every added line stands in something new
}

func (x *miner) entities(ctx context.Context, source []*site) known {
	k := known{only: true}
	for _, s := range source {
		was, is := outline(ctx, x.g.Parser, s.file.path, s.was), outline(ctx, x.g.Parser, s.file.path, s.is)
		fresh := without(is, was)
		k.fresh = append(k.fresh, fresh...)
		k.gone = append(k.gone, without(was, is)...)
		for _, n := range append(touched(is, s.newAt), touched(was, s.oldAt)...) {
			if !slices.Contains(k.changed, n) {
				k.changed = append(k.changed, n)
			}
		}
		k.only = k.only && len(s.removed) == 0 && len(fresh) > 0
	}
	return k
}

// shaped refuses what is not like a mended bug, by what changed and not by
// where: new things with their tests, and rearrangements.
func (m *mined) shaped(source []*site, k known) Reason {
	switch {
	case m.reverting != nil:
		return ""
	case k.only && !fixes.MatchString(m.message):
		return NotABug
	case len(k.gone) > 0 && !fixes.MatchString(m.message):
		return NotABug
	case !fixes.MatchString(m.message) && tidy.MatchString(m.subject()):
		return NotABug
	}
	return ""
}

// fixes are the plain words for it; buggy, which only ranks, has many more.
var fixes = regexp.MustCompile(`(?i)\b(fix(e[sd]|ing)?|bugs?|crash\w*|regress\w*|incorrect(ly)?|wrong(ly)?|broken|closes|resolves|cve-\d+)\b`)

// tests reads the commit's test files as they are today; at least one is left.
func (x *miner) tests(ctx context.Context, m *mined, patch map[string]change) ([]*site, Reason, error) {
	var all []*site
	for _, f := range m.tests {
		if f.status == 'D' || f.mode == modeLink || f.mode == modeSubmodule || f.oldMode == modeLink || f.oldMode == modeSubmodule {
			continue
		}
		c := patch[f.path]
		c.file = f
		s := &site{change: c, path: m.now[f.path]}
		ok, err := x.fill(ctx, s)
		if err != nil {
			return nil, "", err
		}
		if ok && s.there {
			all = append(all, s)
		}
	}
	if len(all) == 0 && m.reverting == nil {
		return nil, TestsGone, nil
	}
	return all, "", nil
}

// about reports whether tests name what the sources changed, or the module it
// is in. Where the change is outside of every entity, the module is enough.
func about(tests, source []*site, k known) bool {
	for _, t := range tests {
		if !isSourceExt(strings.ToLower(path.Ext(t.path))) {
			return true // an expectation as a file
		}
		for _, n := range slices.Concat(k.changed, k.fresh) {
			if len(n) > 1 && hasWord(t.is, strings.Trim(n, "_")) {
				return true
			}
		}
		for _, s := range source {
			if hasWord(t.is, stem(s.path)) || path.Dir(s.path) == path.Dir(t.path) {
				return true
			}
		}
	}
	return false
}

func hasWord(b []byte, w string) bool {
	if w == "" {
		return false
	}
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte(w))
		if i < 0 {
			return false
		}
		i += at
		if (i == 0 || !word(b[i-1]) || b[i-1] == '_') && (i+len(w) == len(b) || !word(b[i+len(w)]) || b[i+len(w)] == '_') {
			return true
		}
		at = i + 1
	}
}

// takeBack computes what the healthy file is without the change.
func (x *miner) takeBack(ctx context.Context, s *site) (Reason, error) {
	switch {
	case s.status == 'A' && !s.there, s.status == 'M' && !s.there, s.status == 'R' && !s.there:
		return Gone, nil
	case s.status == 'A':
		if !bytes.Equal(s.now, s.is) {
			return Conflict, nil // others have built on it since
		}
		s.without = true
		return "", nil
	case s.status == 'D':
		if s.there {
			return Conflict, nil
		}
		s.broken = s.was
		return "", nil
	}
	b, err := x.back.back(ctx, s.now, s.is, s.was, s.hunks)
	if errors.Is(err, errConflict) {
		return Conflict, nil
	}
	s.broken = b
	return "", err
}

// hide takes the change back in test files too, so that the agent sees them as
// they were; where that cannot be done the whole file is hidden.
func (x *miner) hide(ctx context.Context, tests []*site) (Reason, error) {
	for _, t := range tests {
		if t.status == 'A' {
			t.without = bytes.Equal(t.now, t.is)
			continue
		}
		b, err := x.back.back(ctx, t.now, t.is, t.was, t.hunks)
		if err != nil && !errors.Is(err, errConflict) {
			return "", err
		}
		t.broken = b // nil: hidden
	}
	return "", nil
}

func (x *miner) proposal(m *mined) proposal {
	p := proposal{m: m, files: map[string][]byte{}, lines: map[string][]int{}}
	p.Generator, p.Grade, p.Seed = x.g.Name(), forge.GradePatch, x.w.Seed
	p.Operators = []string{m.operator()}
	p.Notes = map[string]string{"base": "inverse on the healthy tree"}
	return p
}

// word adds the statement and the provenance.
func (x *miner) word(p *proposal, source []*site, tests []change, patch map[string]change, k known) {
	m := p.m
	t := tell(m, changesOf(source), slices.Concat(k.changed, k.fresh), logLines(m, patch), x.g.Issues, newStripper(changesOf(source), x.people))
	p.Statement = t.Statement
	if t.Title != "" {
		p.Statement.Hints = hints(changesAt(source), k.changed)
	}
	name := slug(t.Title + t.title)
	if name == "" {
		name = slug(stem(source[0].path))
	}
	id := sha256.Sum256([]byte(m.id)) // the commit's own name would lead to the fix
	p.Name = strings.Trim(name, "-") + "-" + hex.EncodeToString(id[:4])
	p.Origin = forge.Origin{Commit: m.id, Issue: t.issue, Date: m.when.Format("2006-01-02")}
	found := quality(judged{m: m, told: t, source: changesOf(source), tests: tests, fresh: k.fresh, entities: k.changed,
		mentions: func(n string) bool {
			return slices.ContainsFunc(source, func(s *site) bool { return hasWord(s.was, n) })
		}})
	p.note(t, found)
}

func (m *mined) operator() string {
	switch {
	case m.reverting != nil:
		return "undo-revert"
	case m.merge():
		return "undo-merge"
	}
	return "undo-commit"
}

func (p *proposal) note(t told, found []Finding) {
	n := p.Notes
	n["statement"], n["stripped"] = t.from, fmt.Sprint(t.taken)
	if t.title != "" {
		n["title"] = t.title
	}
	var codes []string
	for _, f := range found {
		codes = append(codes, string(f.Code))
	}
	n["quality"] = strings.Join(codes, ",")
	if b, err := json.Marshal(found); err == nil {
		n["quality_evidence"] = string(b)
	}
}

// lay adds one source to the deltas.
func (x *miner) lay(p *proposal, s *site) error {
	abs := x.abs(s.path)
	switch {
	case s.without:
		gold, err := forge.Was(x.w.Tree, abs)
		if err != nil {
			return err
		}
		p.Broken = append(p.Broken, forge.Edit{Path: abs})
		p.Gold = append(p.Gold, gold)
		p.files = nil
	case !s.there:
		parent, err := x.w.Tree.Lstat(path.Dir(abs))
		if err != nil {
			return err
		}
		p.Broken = append(p.Broken, forge.Edit{Path: abs, Type: image.TypeFile, Mode: 0o644, UID: parent.UID, GID: parent.GID, Data: s.broken})
		p.Gold = append(p.Gold, forge.Edit{Path: abs})
		p.put(s.path, s.broken, nil)
	default:
		broken, err := forge.Rewrite(x.w.Tree, abs, s.broken)
		if err != nil {
			return err
		}
		gold, err := forge.Was(x.w.Tree, abs)
		if err != nil {
			return err
		}
		gold.Time, gold.Nanos = 0, 0 // when it was mended is the solver's time
		p.Broken, p.Gold = append(p.Broken, broken), append(p.Gold, gold)
		p.put(s.path, s.broken, differing(s.now, s.broken))
	}
	return nil
}

func (p *proposal) put(name string, b []byte, lines []int) {
	if p.files == nil {
		return
	}
	p.files[name] = b
	if len(lines) > 0 {
		p.lines[name] = lines
	}
}

// layTest adds a test file: as it was in what the agent sees, as it is at grading.
func (x *miner) layTest(p *proposal, t *site) error {
	abs := x.abs(t.path)
	was, err := forge.Was(x.w.Tree, abs)
	if err != nil {
		return err
	}
	switch {
	case t.without:
		p.Broken = append(p.Broken, forge.Edit{Path: abs})
	case t.broken != nil && !bytes.Equal(t.broken, t.now):
		e, err := forge.Rewrite(x.w.Tree, abs, t.broken)
		if err != nil {
			return err
		}
		p.Broken = append(p.Broken, e)
	case t.broken == nil:
		p.Hidden = append(p.Hidden, t.path)
	}
	p.Tests = append(p.Tests, was)
	return nil
}

// covering are tests of the commit's test files, and those that run its sources.
func (x *miner) covering(source, tests []*site) []string {
	s := &x.w.Env.Suite
	var files []string
	for _, t := range tests {
		files = append(files, t.path)
	}
	hit := map[int]bool{}
	for i, f := range s.Files {
		if slices.ContainsFunc(source, func(c *site) bool { return c.path == f }) {
			hit[i] = true
		}
	}
	var ids []string
	for _, t := range s.Tests {
		if ofTests(t.File, files) || slices.ContainsFunc(t.Covers, func(i int) bool { return hit[i] }) {
			ids = append(ids, t.Command+":"+t.ID)
		}
	}
	return ids
}

// differing are the lines of the old text that the new one has not, by a count
// of lines: near enough to choose tests by.
func differing(old, new []byte) []int {
	left := balance(old, new)
	var at []int
	n := 0
	for l := range bytes.Lines(old) {
		n++
		if k := string(bytes.TrimRight(l, "\r\n")); left[k] < 0 {
			left[k]++
			at = append(at, n)
		}
	}
	return at
}

func changesOf(all []*site) []change {
	var out []change
	for _, s := range all {
		out = append(out, s.change)
	}
	return out
}

// changesAt is changesOf with the names of today.
func changesAt(all []*site) []change {
	out := changesOf(all)
	for i := range out {
		out[i].path = all[i].path
	}
	return out
}

func logLines(m *mined, patch map[string]change) []string {
	var all []string
	for _, f := range m.logs {
		all = append(all, patch[f.path].added...)
	}
	return all
}
