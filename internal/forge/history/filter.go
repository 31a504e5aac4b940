package history

import (
	"maps"
	"regexp"
	"slices"
	"time"
)

// Reason is why a commit is no candidate. The words stand in records: they are
// added to, never changed.
type Reason string

const (
	NoParent     Reason = "no parent"                   // a root, or the edge of a shallow clone
	Old          Reason = "before --since"              //
	SideMerge    Reason = "merge into a side branch"    //
	Chore        Reason = "release, bump or bot"        //
	NoSource     Reason = "no source"                   // only docs, configuration, dependencies, tests
	NoTests      Reason = "no tests"                    //
	TooManyFiles Reason = "too many files"              //
	TooLarge     Reason = "too large"                   //
	TooSmall     Reason = "nothing but removed files"   //
	Binary       Reason = "binary source"               //
	NotAFile     Reason = "submodule or link"           //
	Unsayable    Reason = "name is not text"            // not UTF-8, or with control characters
	WasUndone    Reason = "taken back later"            //
	InMerge      Reason = "part of a merge"             // that is a candidate itself
	Cosmetic     Reason = "comments or formatting only" //
	NotABug      Reason = "not a mended fault"          // new things only, or a rearrangement
	TestsElse    Reason = "tests are about other code"  //
	Gone         Reason = "no longer in the tree"       //
	Conflict     Reason = "its inverse does not apply"  //
	Far          Reason = "too far from the tree"       // nor does it, and too much has changed since for the code of before it
	TestsGone    Reason = "its tests are gone"          //
	Leaks        Reason = "statement holds the fix"     //
	NoKill       Reason = "no stable test fails"        //
	Unviable     Reason = "does not build without it"   //
	Undecided    Reason = "not decided"                 // the machine failed
	Unreadable   Reason = "objects are missing"         // of a partial clone, or too large
	Same         Reason = "same change as another"      //
)

// Limits bound what is proposed. Zero values are the defaults: those of the
// mirrored pull requests of SWE-smith (8 files, 500 changed lines).
type Limits struct {
	Files int // source files, 8
	Lines int // changed lines of source, 500
	Tests int // test files, 20
}

func (l Limits) filled() Limits {
	if l.Files <= 0 {
		l.Files = 8
	}
	if l.Lines <= 0 {
		l.Lines = 500
	}
	if l.Tests <= 0 {
		l.Tests = 20
	}
	return l
}

// Funnel is what became of all commits.
type Funnel struct {
	Commits  int            `json:"commits"` // that HEAD reaches
	Read     int            `json:"read"`    // with their files
	Rejected map[Reason]int `json:"rejected"`
	Proposed int            `json:"proposed"`
	Scan     time.Duration  `json:"scan_ns"`
}

func (f *Funnel) reject(r Reason) {
	if f.Rejected == nil {
		f.Rejected = map[Reason]int{}
	}
	f.Rejected[r]++
}

// Reasons lists what rejected, most first.
func (f *Funnel) Reasons() []Reason {
	return slices.SortedFunc(maps.Keys(f.Rejected), func(a, b Reason) int {
		if d := f.Rejected[b] - f.Rejected[a]; d != 0 {
			return d
		}
		if a < b {
			return -1
		}
		return 1
	})
}

// mined is a commit that passed what the log alone can tell.
type mined struct {
	*commit
	source, tests []file // tests with their fixtures
	logs          []file // of changes, for users
	others        int
	now           map[string]string // todays names of these
	reverting     *commit           // what it takes back; nil: nothing
	bug           bool              // by its words
	score         float64
}

const (
	modeLink      = "120000"
	modeSubmodule = "160000"
)

var (
	chore = regexp.MustCompile(`(?i)^(\[?(release|bump|prepare|version|pre-commit|dependabot|renovate|ci|build\(deps|chore\(deps)|v?\d+\.\d+(\.\d+)?\b|update (version|changelog|dependenc|copyright|authors|translations)|merge (remote-tracking )?branch )`)
	bots  = regexp.MustCompile(`(?i)(\[bot\]|dependabot|renovate|greenkeeper|pre-commit-ci|github-actions)`)
	buggy = regexp.MustCompile(`(?i)\b(fix(e[sd]|ing)?|bugs?|crash(e[sd]|ing)?|regress\w*|incorrect(ly)?|wrong(ly)?|broken|breaks?|fail(s|ed|ing|ure)?|errors?|exceptions?|tracebacks?|raises?|panics?|leaks?|race|deadlock|hang(s|ing)?|infinite|overflow|off.by.one|missing|should(n't| not)?|does(n't| not)|must not|invalid|handle[sd]?|correct(ly|s|ed)?|prevent|avoid|ignor(e[sd]?|ing)|typeerror|valueerror|keyerror|nullpointer|npe|undefined|cve-\d+|security|properly|instead of|no longer|edge case|workaround|closes|resolves)\b|#\d+`)
	tidy  = regexp.MustCompile(`(?i)\b(refactor\w*|rename[sd]?|clean(s|ed|ing)?.?up|cosmetic|whitespace|format(ting)?|lint\w*|typos?|spelling|docstrings?|style|reorgani[sz]\w*|simplif\w*|moderni[sz]e|type (hints?|annotations?)|typing|mypy|flake8|pep.?8|isort|black|drop support|python ?2|deprecat\w*|optimi[sz]\w*|speed.?up|moved?|split|extract)\b`)
)

// sift is what the log alone tells of a commit.
func sift(c *commit, p *past, l Limits, isTest func(string) bool) (*mined, Reason) {
	m := &mined{commit: c}
	if x := p.byID[p.undoes[c.id]]; x != nil {
		m.reverting = x
	}
	if len(c.parents) == 0 {
		return nil, NoParent
	}
	if _, side := p.brought[c.id]; side && c.merge() {
		return nil, SideMerge
	}
	if chore.MatchString(c.subject()) && !(c.merge() && len(c.body()) > 0) || bots.MatchString(c.author) {
		return nil, Chore
	}
	if !p.stands(c.id) {
		return nil, WasUndone
	}
	alive := 0
	for _, f := range c.files {
		switch k := classify(f.path, isTest); k {
		case source:
			m.source = append(m.source, f)
			if f.status != 'D' {
				alive++
			}
		case test, fixture:
			m.tests = append(m.tests, f)
		case changelog:
			m.logs = append(m.logs, f)
		default:
			m.others++
		}
	}
	if r := m.shape(l, alive); r != "" {
		return nil, r
	}
	m.bug = buggy.MatchString(c.message)
	m.score = m.rank()
	return m, ""
}

// shape refuses by what kinds of files there are, and how much.
func (m *mined) shape(l Limits, alive int) Reason {
	tested := slices.ContainsFunc(m.tests, func(f file) bool { return f.status != 'D' })
	switch {
	case len(m.source) == 0:
		return NoSource
	// What takes a change back takes its tests back too: the suite decides about it.
	case !tested && m.reverting == nil:
		return NoTests
	case m.cut || len(m.source) > l.Files || len(m.tests) > l.Tests:
		return TooManyFiles
	case alive == 0:
		return TooSmall
	}
	for _, f := range slices.Concat(m.source, m.tests) {
		if !sayable(f.path) || !sayable(f.was) {
			return Unsayable
		}
	}
	for _, f := range m.source {
		if f.mode == modeSubmodule || f.oldMode == modeSubmodule || f.mode == modeLink || f.oldMode == modeLink {
			return NotAFile
		}
	}
	return ""
}

// rank puts first what is likely to be a small, well described bug-fix. It
// never refuses anything.
func (m *mined) rank() float64 {
	s := 0.0
	if m.bug {
		s += 3
	}
	if tidy.MatchString(m.subject()) {
		s -= 2
	}
	if len(references(m.message)) > 0 {
		s++
	}
	if m.reverting != nil {
		s--
	}
	s -= float64(len(m.source)) * 0.3
	s += min(1, float64(len(m.message))/400)
	// A year of age costs as much as a file: what is old applies less often.
	s += float64(m.when.Unix()) / (365 * 86400) * 0.3
	return s
}
