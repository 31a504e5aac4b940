package exchange

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/internal/store"
	"assay/trial"
)

// The form is that of the JUnit schema which CI systems read: a suite for each
// agent and model, a case for each trial. A trial that was graded and not
// solved is a failure; one without a verdict is an error; one that has not
// ended is skipped.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr"`
	Timestamp string      `xml:"timestamp,attr,omitempty"` // ISO 8601 without a zone, in UTC
	Cases     []junitCase `xml:"testcase"`
	seconds   float64
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitText `xml:"failure"`
	Error   *junitText `xml:"error"`
	Skipped *junitText `xml:"skipped"`
	Out     string     `xml:"system-out,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr,omitempty"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit writes a job as JUnit XML.
func JUnit(v *store.View) ([]byte, error) {
	all := junitSuites{Name: xmlText(v.Name)}
	for _, t := range v.Trials {
		name := suiteName(t)
		i := slices.IndexFunc(all.Suites, func(s junitSuite) bool { return s.Name == name })
		if i < 0 {
			i = len(all.Suites)
			all.Suites = append(all.Suites, junitSuite{Name: name})
		}
		all.Suites[i].add(t, name)
	}
	var seconds float64
	for i := range all.Suites {
		s := &all.Suites[i]
		s.Time = inSeconds(s.seconds)
		seconds += s.seconds
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
	}
	all.Time = inSeconds(seconds)
	var b bytes.Buffer
	b.WriteString(xml.Header)
	e := xml.NewEncoder(&b)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// suiteName is an arm as a suite: CI systems tell tests apart by it, from run to
// run, and show it in a narrow column.
func suiteName(t *store.Trial) string {
	name := t.Agent
	if strings.HasPrefix(name, commandArm) {
		name = ArmName(name, "")
	}
	if t.Model != "" {
		name += " with " + t.Model
	}
	return xmlText(name)
}

func inSeconds(f float64) string { return strconv.FormatFloat(f, 'f', 3, 64) }

func (s *junitSuite) add(t *store.Trial, suite string) {
	took := t.Millis() / 1000
	s.Tests++
	s.seconds += took
	if s.Timestamp == "" && !t.Started.IsZero() {
		s.Timestamp = t.Started.UTC().Format("2006-01-02T15:04:05")
	}
	c := junitCase{Name: xmlText(t.Task), Class: suite, Time: inSeconds(took)}
	if t.Rep > 1 {
		c.Name += fmt.Sprintf(" (attempt %d)", t.Rep)
	}
	text := &junitText{Type: string(t.Cause), Message: xmlText(message(t)), Text: xmlText(t.Record.Detail)}
	switch {
	case t.Status != store.TrialFinished:
		s.Skipped++
		c.Skipped = &junitText{Message: "no result: " + string(t.Status)}
	case t.Outcome == trial.Pass:
	case t.Outcome == trial.Fail:
		s.Failures++
		c.Failure = text
	default:
		s.Errors++
		c.Error = text
	}
	if t.Status == store.TrialFinished {
		c.Out = xmlText(fmt.Sprintf("trial %s\nagent %s\nevidence %s\n", t.Name, t.Agent, t.Evidence))
	}
	s.Cases = append(s.Cases, c)
}

func message(t *store.Trial) string {
	e, err := t.Cause.Ending()
	if err != nil {
		return string(t.Outcome)
	}
	return fmt.Sprintf("%s: %s", t.Outcome, e.Means)
}

// xmlText drops what XML 1.0 cannot hold in any spelling.
func xmlText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r != 0xfffe && r != 0xffff {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\ufffd"))
}
