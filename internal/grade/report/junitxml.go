package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// junitSuite is a testsuite; numbers that it does not say are -1.
type junitSuite struct {
	name                                       string
	tests, failures, errors, skipped, disabled int
	cases                                      []junitCase
	suites                                     []*junitSuite
	all                                        tally      // with the suites in it
	broke                                      *junitCase // what failed of the suite itself, outside of its tests
}

// junitCase is a testcase: how many children of each kind it has, and the text
// of the first that says why it did not pass.
type junitCase struct {
	name, class, status                      string
	failures, errors, skipped, flaky, reruns int
	badType, badMessage, message, out        string
	line                                     int
	took                                     time.Duration
}

type junitParser struct {
	dec    *xml.Decoder
	r      *Report
	source string
	cases  int
}

// parseJUnit reads one document: no DTD, no entity but XML's five, UTF-8.
// One that breaks off is flagged and gives what stands before the break.
func parseJUnit(s Source, r *Report) ([]*junitSuite, *Error) {
	if at := manyAttrs(s.Data); at >= 0 {
		return nil, &Error{Source: s.Name, Line: 1 + bytes.Count(s.Data[:at], []byte("\n")), Detail: fmt.Sprintf("an element with more than %d attributes", maxXMLAttrs)}
	}
	p := &junitParser{dec: xml.NewDecoder(bytes.NewReader(legalXML(s.Data))), r: r, source: s.Name}
	p.dec.Entity = map[string]string{}
	var roots []*junitSuite
	done := false
	for {
		tok, err := p.dec.RawToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			return p.broken(roots, err)
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if done {
				r.flag(FlagStray, "", s.Name+": an element behind the end: "+clip(t.Name.Local, 40))
				return roots, nil
			}
			done = true
			root, err := p.root(t)
			if root != nil {
				roots = append(roots, root)
			}
			if err != nil {
				return p.broken(roots, err)
			}
		case xml.CharData:
			if len(bytes.TrimSpace(bytes.TrimPrefix(t, []byte("\xef\xbb\xbf")))) > 0 {
				r.flag(FlagStray, "", s.Name+": text outside of the document")
			}
		default:
			if err := p.harmless(tok); err != nil {
				return p.broken(roots, err)
			}
		}
	}
	if !done {
		r.flag(FlagCut, "", s.Name+" is empty")
	}
	return roots, nil
}

// broken tells a document that ends too early from one that is none.
func (p *junitParser) broken(roots []*junitSuite, err error) ([]*junitSuite, *Error) {
	var syntax *xml.SyntaxError
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &syntax) && strings.Contains(syntax.Msg, "EOF") {
		p.r.flag(FlagCut, "", p.source+" breaks off")
		return roots, nil
	}
	at, _ := p.dec.InputPos()
	return nil, &Error{Source: p.source, Line: at, Detail: err.Error()}
}

// harmless refuses what no runner writes: document types, and instructions
// other than the XML declaration.
func (p *junitParser) harmless(tok xml.Token) error {
	switch t := tok.(type) {
	case xml.Directive:
		return errors.New("a document type declaration")
	case xml.ProcInst:
		if t.Target != "xml" && t.Target != "xml-stylesheet" {
			return fmt.Errorf("a processing instruction %q", clip(t.Target, 40))
		}
		if enc := procValue(string(t.Inst), "encoding"); enc != "" && !strings.EqualFold(enc, "utf-8") && !strings.EqualFold(enc, "us-ascii") {
			return fmt.Errorf("encoding %q (UTF-8 is read)", clip(enc, 40))
		}
	}
	return nil
}

func procValue(inst, key string) string {
	_, after, ok := strings.Cut(inst, key+"=")
	if !ok || len(after) < 2 {
		return ""
	}
	value, _, _ := strings.Cut(after[1:], after[:1])
	return value
}

// root reads testsuites or testsuite. What it returns is whole unless there is
// an error.
func (p *junitParser) root(t xml.StartElement) (*junitSuite, error) {
	if t.Name.Local != "testsuites" && t.Name.Local != "testsuite" {
		return nil, fmt.Errorf("the root is <%s>, not <testsuites> or <testsuite>", clip(t.Name.Local, 40))
	}
	return p.suite(t, 1)
}

func (p *junitParser) suite(t xml.StartElement, depth int) (*junitSuite, error) {
	s := &junitSuite{tests: -1, failures: -1, errors: -1, skipped: -1, disabled: -1}
	attrs, err := attributes(t)
	if err != nil {
		return s, err
	}
	s.name = attrs["name"]
	for key, to := range map[string]*int{"tests": &s.tests, "failures": &s.failures, "errors": &s.errors,
		"skipped": &s.skipped, "skip": &s.skipped, "disabled": &s.disabled} {
		if v := attrs[key]; v != "" {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				return s, fmt.Errorf("%s=%q of suite %q is no number", key, clip(v, 40), clip(s.name, 80))
			}
			*to = n
		}
	}
	if depth > maxXMLDepth {
		return s, errors.New("suites in suites without an end")
	}
	return s, p.inside(t, func(c xml.StartElement) error {
		switch c.Name.Local {
		case "testsuite":
			child, err := p.suite(c, depth+1)
			s.suites = append(s.suites, child)
			return err
		case "testcase":
			one, err := p.testcase(c)
			if err == nil {
				s.cases = append(s.cases, one)
			}
			return err
		}
		if c.Name.Local == "error" || c.Name.Local == "failure" {
			s.broke = &junitCase{}
			return p.outcome(s.broke, c)
		}
		_, err := p.text(c, 0)
		return err
	})
}

// inside calls each for every child of an element, up to its end.
func (p *junitParser) inside(t xml.StartElement, each func(xml.StartElement) error) error {
	for {
		tok, err := p.dec.RawToken()
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		switch c := tok.(type) {
		case xml.StartElement:
			if err := each(c); err != nil {
				return err
			}
		case xml.EndElement:
			if c.Name != t.Name {
				return fmt.Errorf("<%s> ends as </%s>", clip(t.Name.Local, 40), clip(c.Name.Local, 40))
			}
			return nil
		case xml.CharData:
			if len(bytes.TrimSpace(c)) > 0 {
				p.r.flag(FlagStray, "", fmt.Sprintf("%s: text in <%s>: %s", p.source, clip(t.Name.Local, 40), clip(string(bytes.TrimSpace(c)), 60)))
			}
		default:
			if err := p.harmless(tok); err != nil {
				return err
			}
		}
	}
}

func (p *junitParser) testcase(t xml.StartElement) (junitCase, error) {
	c := junitCase{}
	c.line, _ = p.dec.InputPos()
	if p.cases++; p.cases > 2*MaxTests {
		return c, fmt.Errorf("more than %d testcases", 2*MaxTests)
	}
	attrs, err := attributes(t)
	if err != nil {
		return c, err
	}
	c.name, c.class, c.status = attrs["name"], attrs["classname"], attrs["status"]
	if f, err := strconv.ParseFloat(strings.ReplaceAll(attrs["time"], ",", ""), 64); err == nil {
		c.took = secondsOf(f)
	}
	return c, p.inside(t, func(e xml.StartElement) error { return p.outcome(&c, e) })
}

// outcome reads one child of a testcase.
func (p *junitParser) outcome(c *junitCase, e xml.StartElement) error {
	count := map[string]*int{"failure": &c.failures, "error": &c.errors, "skipped": &c.skipped, "ignored": &c.skipped,
		"flakyFailure": &c.flaky, "flakyError": &c.flaky, "rerunFailure": &c.reruns, "rerunError": &c.reruns}[e.Name.Local]
	attrs, err := attributes(e)
	if err != nil {
		return err
	}
	keep := 0
	switch {
	case count != nil:
		*count++
		keep = MaxMessage
	case e.Name.Local == "system-out":
		keep = 2 << 10
	}
	text, err := p.text(e, keep)
	if err != nil {
		return err
	}
	if e.Name.Local == "flakyFailure" || e.Name.Local == "flakyError" {
		c.reruns++
	}
	if e.Name.Local == "system-out" {
		c.out = tail(text, 1<<10)
		return nil
	}
	if count != nil && c.message == "" {
		c.badType, c.badMessage = attrs["type"], attrs["message"]
		if c.message = text; !strings.Contains(text, c.badMessage) || text == "" {
			c.message = strings.TrimSpace(c.badMessage + "\n" + text)
		}
	}
	return nil
}

// text reads an element to its end, whatever is in it, and keeps the first and
// the last bytes of its text.
func (p *junitParser) text(t xml.StartElement, keep int) (string, error) {
	open := []xml.Name{t.Name}
	var b []byte
	for len(open) > 0 {
		tok, err := p.dec.RawToken()
		if err == io.EOF {
			return "", io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", err
		}
		switch c := tok.(type) {
		case xml.StartElement:
			if open = append(open, c.Name); len(open) > maxXMLDepth {
				return "", errors.New("elements in elements without an end")
			}
			if _, err := attributes(c); err != nil {
				return "", err
			}
		case xml.EndElement:
			if top := open[len(open)-1]; top != c.Name {
				return "", fmt.Errorf("<%s> ends as </%s>", clip(top.Local, 40), clip(c.Name.Local, 40))
			}
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 1 {
				continue
			}
			if b = append(b, c...); len(b) > 2*keep {
				b = append(b[:keep/2], b[len(b)-(keep-keep/2):]...)
			}
		default:
			if err := p.harmless(tok); err != nil {
				return "", err
			}
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD")), nil
}

// tail keeps the end of a text, with a line end before it, as tests for whole
// lines want it.
func tail(s string, n int) string {
	if s == "" {
		return ""
	}
	if len(s) > n {
		s = s[len(s)-n:]
	}
	return "\n" + s
}

// attributes of an element; one that is there twice is no XML.
func attributes(t xml.StartElement) (map[string]string, error) {
	m := make(map[string]string, len(t.Attr))
	for _, a := range t.Attr {
		key := a.Name.Local
		if a.Name.Space != "" {
			key = a.Name.Space + ":" + key
		}
		if _, twice := m[key]; twice {
			return nil, fmt.Errorf("<%s> has %s twice", clip(t.Name.Local, 40), clip(key, 40))
		}
		m[key] = a.Value
	}
	return m, nil
}

// legalXML puts U+FFFD where a runner wrote what XML may not hold, as bytes or
// as references: terminals' colours are in the messages of honest failures.
func legalXML(b []byte) []byte {
	b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	bad := func(r rune) bool {
		return r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
	}
	if bytes.IndexFunc(b, bad) >= 0 {
		b = bytes.Map(func(r rune) rune {
			if bad(r) {
				return 0xFFFD
			}
			return r
		}, b)
	}
	if !bytes.Contains(b, []byte("&#")) {
		return b
	}
	out := make([]byte, 0, len(b))
	for {
		i := bytes.Index(b, []byte("&#"))
		if i < 0 {
			return append(out, b...)
		}
		out = append(out, b[:i]...)
		b = b[i:]
		end := bytes.IndexByte(b[:min(len(b), 12)], ';')
		if end > 0 && illegalRef(string(b[2:end])) {
			out = append(out, "\uFFFD"...)
			b = b[end+1:]
			continue
		}
		out = append(out, b[:2]...)
		b = b[2:]
	}
}

func illegalRef(s string) bool {
	base := 10
	if strings.HasPrefix(s, "x") || strings.HasPrefix(s, "X") {
		s, base = s[1:], 16
	}
	n, err := strconv.ParseUint(s, base, 32)
	return err == nil && (n < 0x20 && n != '\t' && n != '\n' && n != '\r' || n >= 0xD800 && n <= 0xDFFF || n == 0xFFFE || n == 0xFFFF || n > 0x10FFFF)
}
