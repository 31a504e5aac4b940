package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// mochaJSON reads Mocha's json reporter.
func mochaJSON() Reader {
	return Reader{
		Format: "mocha",
		Read:   byTitles(readEach("mocha", readMocha)),
		Agrees: agreesMocha,
		Means:  "Mocha 10, 11: mocha --reporter json --reporter-option output=FILE",
	}
}

// mochaLog reads the log of assay's reporter for Mocha: titles one by one, and
// which test a failed hook belongs to, neither of which is in Mocha's own json.
func mochaLog() Reader {
	return Reader{
		Format: "mocha-log",
		Read:   byTitles(readEach("mocha-log", readTestLog)),
		Agrees: agreesMocha,
		Means:  "Mocha 3 to 11 with assay_mocha.cjs: mocha --reporter DIR/assay_mocha.cjs --reporter-options output=FILE",
	}
}

// nodeTest reads the log of assay's reporter for node:test.
func nodeTest() Reader {
	return Reader{
		Format: "node-test",
		Read:   byTitles(readEach("node-test", readTestLog)),
		Agrees: agreesNode,
		Means:  "Node 20, 22, 24 with assay_node.mjs: node --test --test-reporter=DIR/assay_node.mjs --test-reporter-destination=FILE",
	}
}

// agreesNode: 0, or 1 if something failed that is not marked as to do.
func agreesNode(r *Report, exit int) (string, bool) {
	bad := r.count(Failed, Errored, Unknown)
	if exit == 0 && bad == 0 || exit == 1 && bad > 0 {
		return "", true
	}
	return fmt.Sprintf("node ended with status %d, and %d of %d tests failed", exit, bad, len(r.Tests)), false
}

// agreesMocha: the status is the number of failures, at most 255, or 1 with
// --posix-exit-codes.
func agreesMocha(r *Report, exit int) (string, bool) {
	failures := 0
	if r.Counts.Failed != nil {
		failures = *r.Counts.Failed
	}
	if exit == min(failures, 255) || exit == 1 && failures > 0 {
		return "", true
	}
	return fmt.Sprintf("mocha ended with status %d, and reports %d failures", exit, failures), false
}

type mochaReport struct {
	Stats *struct {
		Tests    *int `json:"tests"`
		Passes   *int `json:"passes"`
		Pending  *int `json:"pending"`
		Failures *int `json:"failures"`
	} `json:"stats"`
	Tests    []mochaTest `json:"tests"`
	Pending  []mochaTest `json:"pending"`
	Failures []mochaTest `json:"failures"`
	Passes   []mochaTest `json:"passes"`
}

type mochaTest struct {
	Title     string  `json:"title"`
	FullTitle string  `json:"fullTitle"`
	File      string  `json:"file"`
	Duration  float64 `json:"duration"` // milliseconds
	Err       struct {
		Message string `json:"message"`
		Stack   string `json:"stack"`
		Code    string `json:"code"`
	} `json:"err"`
}

func readMocha(p *part, s Source) error {
	d := json.NewDecoder(bytes.NewReader(s.Data))
	var m mochaReport
	if err := d.Decode(&m); err != nil {
		if (err == io.EOF || err == io.ErrUnexpectedEOF) && bytes.HasPrefix(bytes.TrimSpace(s.Data), []byte("{")) {
			p.flag(FlagCut, "", s.Name+" breaks off")
			return nil
		}
		return err
	}
	if m.Stats == nil || m.Stats.Tests == nil || m.Stats.Passes == nil || m.Stats.Pending == nil || m.Stats.Failures == nil || m.Tests == nil {
		return fmt.Errorf("no stats and tests of Mocha in it")
	}
	if _, err := d.Token(); err != io.EOF {
		p.flag(FlagStray, "", s.Name+": something after the report's end")
	}
	if err := m.put(p, s.Root); err != nil {
		return err
	}
	for _, c := range []struct {
		what         string
		told, listed int
	}{
		{"tests", *m.Stats.Tests, len(m.Tests)},
		{"passes", *m.Stats.Passes, len(m.Passes)},
		{"pending", *m.Stats.Pending, len(m.Pending)},
		{"failures", *m.Stats.Failures, len(m.Failures)},
	} {
		if c.told != c.listed {
			p.flag(FlagCounts, "", fmt.Sprintf("%s: %s %d, and %d are listed", s.Name, c.what, c.told, c.listed))
		}
	}
	sum(&p.Counts.Total, *m.Stats.Tests)
	sum(&p.Counts.Passed, *m.Stats.Passes)
	sum(&p.Counts.Failed, *m.Stats.Failures)
	sum(&p.Counts.Skipped, *m.Stats.Pending)
	return nil
}

// mochaKey is what Mocha tells of a test's identity.
type mochaKey struct{ file, full, title string }

func (t mochaTest) key() mochaKey { return mochaKey{t.File, t.FullTitle, t.Title} }

// id is the file, the titles of the groups as Mocha joins them, and the title.
func (t mochaTest) id(root string) string {
	groups, ok := strings.CutSuffix(t.FullTitle, t.Title)
	groups = strings.TrimSuffix(groups, " ")
	if !ok || groups == "" {
		return join(below(root, t.File), titled(t.Title))
	}
	return join(below(root, t.File), groups, titled(t.Title))
}

// put adds each test once: what it is in the list of all tests, by the lists
// that have it. A list that has one more often than that of all tests has it is
// a contradiction, except for failures: there is a hook that failed, and a test
// that passed before it failed.
func (m *mochaReport) put(p *part, root string) error {
	passed, pending, failed := mochaTally(m.Passes), mochaTally(m.Pending), map[mochaKey][]mochaTest{}
	for _, t := range m.Failures {
		failed[t.key()] = append(failed[t.key()], t)
	}
	for _, t := range m.Tests {
		k := t.key()
		r := Test{ID: t.id(root), Status: Unknown}
		if t.Duration > 0 && t.Duration < 1e9 {
			r.Took = time.Duration(t.Duration * float64(time.Millisecond))
		}
		switch {
		case passed[k] > 0 && (len(failed[k]) == 0 || t.Err.Message == "" && t.Err.Stack == ""):
			passed[k]--
			r.Status = Passed
		case len(failed[k]) > 0:
			r.Status, r.Kind, r.Message = Failed, failed[k][0].kind(), failed[k][0].Err.Stack
			failed[k] = failed[k][1:]
			if passed[k] > 0 && passed[k] >= len(failed[k])+1 && t.Err.Stack != "" {
				passed[k]-- // it passed, and failed after that
			}
		case pending[k] > 0:
			pending[k]--
			r.Status = Skipped
		}
		if r.Status == Unknown {
			p.flag(FlagCounts, r.ID, "listed as a test, and neither passed, pending nor failed")
		}
		if err := p.add(r); err != nil {
			return err
		}
	}
	for k, n := range passed {
		if n > 0 {
			p.flag(FlagCounts, "", fmt.Sprintf("%.200q passed, and is no test", k.full))
		}
	}
	return m.hooks(p, root, failed)
}

func mochaTally(list []mochaTest) map[mochaKey]int {
	n := map[mochaKey]int{}
	for _, t := range list {
		n[t.key()]++
	}
	return n
}

// hookOf finds the test around which a hook failed.
var hookOf = regexp.MustCompile(`^"(?:before|after) each" hook.* for "((?s:.*))"$`)

// maxHookLooks bounds the search for the tests around which hooks failed.
const maxHookLooks = 1_000_000

// hooks adds the failures that are left: each under its own name, and as an
// error of the test around which it ran.
func (m *mochaReport) hooks(p *part, root string, failed map[mochaKey][]mochaTest) error {
	byTitle := map[[2]string][]mochaTest{}
	for _, t := range m.Tests {
		byTitle[[2]string{t.File, t.Title}] = append(byTitle[[2]string{t.File, t.Title}], t)
	}
	looked := 0
	for _, f := range m.Failures {
		k := f.key()
		if len(failed[k]) == 0 {
			continue
		}
		failed[k] = failed[k][1:]
		r := Test{ID: f.id(root), Status: Errored, Kind: f.kind(), Message: f.Err.Stack}
		if err := p.add(r); err != nil {
			return err
		}
		of := hookOf.FindStringSubmatch(f.Title)
		if of == nil {
			continue
		}
		around := strings.TrimSuffix(f.FullTitle, f.Title)
		for _, t := range byTitle[[2]string{f.File, of[1]}] {
			if looked++; looked > maxHookLooks {
				return fmt.Errorf("more than %d failed hooks around tests of one name", maxHookLooks)
			}
			if i, ok := p.index[line(t.id(root))]; ok && strings.HasPrefix(t.FullTitle, around) {
				p.Tests[i].Status, p.Tests[i].Kind = Errored, r.Kind
			}
		}
	}
	return nil
}

func (t mochaTest) kind() Kind {
	switch {
	case strings.HasPrefix(t.Err.Message, "Timeout of "):
		return KindTimeout
	case t.Err.Code == "ERR_ASSERTION", strings.HasPrefix(t.Err.Stack, "AssertionError"):
		return KindAssertion
	}
	return KindException
}
