package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Caps of an XML report's form.
const (
	maxXMLDepth = 64
	maxXMLAttrs = 200 // of one element
)

// xmlScan walks through a report in XML, element by element, without holding
// the whole. It knows no document types and no entities but XML's own five, so
// that nothing expands.
type xmlScan struct {
	d     *xml.Decoder
	s     Source
	f     Format
	depth int
}

// newXML begins; an error means that the source is no XML of a runner.
func newXML(f Format, s Source) (*xmlScan, error) {
	x := &xmlScan{s: s, f: f}
	if at := manyAttrs(s.Data); at >= 0 {
		return nil, &Error{Format: f, Source: s.Name, Line: 1 + bytes.Count(s.Data[:at], []byte("\n")), Detail: fmt.Sprintf("an element with more than %d attributes", maxXMLAttrs)}
	}
	x.d = xml.NewDecoder(bytes.NewReader(s.Data))
	x.d.CharsetReader = func(label string, in io.Reader) (io.Reader, error) {
		if strings.EqualFold(label, "utf-8") || strings.EqualFold(label, "us-ascii") || strings.EqualFold(label, "ascii") {
			return in, nil
		}
		return nil, fmt.Errorf("encoding %q (only UTF-8)", label)
	}
	return x, nil
}

// manyAttrs finds a tag that would make the decoder hold a great many
// attributes at once; -1: there is none.
func manyAttrs(b []byte) int {
	for at := 0; ; {
		open := bytes.IndexByte(b[at:], '<')
		if open < 0 {
			return -1
		}
		at += open
		rest, end := b[at:], -1
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			end = bytes.Index(rest, []byte("-->"))
		case bytes.HasPrefix(rest, []byte("<![CDATA[")):
			end = bytes.Index(rest, []byte("]]>"))
		case bytes.HasPrefix(rest, []byte("<?")): // its quotes need not match
			end = bytes.Index(rest, []byte("?>"))
		default:
			n := 0
			if n, end = tag(rest); n > maxXMLAttrs {
				return at
			}
		}
		if end < 0 {
			return -1
		}
		at += end + 1
	}
}

// tag counts the values of the tag that b begins with, and finds its end.
func tag(b []byte) (values, end int) {
	quote := byte(0)
	for i, c := range b {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '=':
			values++
		case c == '>':
			return values, i
		}
	}
	return values, -1
}

// next is the next start, end or text. At the end of a whole document the
// error is io.EOF; of one that breaks off, errCut.
func (x *xmlScan) next() (xml.Token, error) {
	for {
		t, err := x.d.Token()
		if err != nil {
			if err == io.EOF && x.depth == 0 {
				return nil, io.EOF
			}
			return nil, x.fault(err)
		}
		switch t := t.(type) {
		case xml.StartElement:
			if x.depth++; x.depth > maxXMLDepth {
				return nil, x.bad("elements deeper than %d", maxXMLDepth)
			}
			return t, nil
		case xml.EndElement:
			x.depth--
			return t, nil
		case xml.CharData:
			return t, nil
		case xml.Directive:
			return nil, x.bad("a document type: no runner writes one")
		}
	}
}

// errCut: the document ends before its end.
var errCut = errors.New("breaks off")

func (x *xmlScan) fault(err error) error {
	var se *xml.SyntaxError
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &se) && x.d.InputOffset() >= int64(len(x.s.Data)) {
		return errCut
	}
	if se != nil {
		return &Error{Format: x.f, Source: x.s.Name, Line: se.Line, Detail: se.Msg}
	}
	return x.bad("%v", err)
}

func (x *xmlScan) bad(format string, args ...any) error {
	l, _ := x.d.InputPos()
	return &Error{Format: x.f, Source: x.s.Name, Line: l, Detail: fmt.Sprintf(format, args...)}
}

func (x *xmlScan) line() int { l, _ := x.d.InputPos(); return l }

// attrs are an element's attributes by local name; of two the first stays.
func attrs(e xml.StartElement) map[string]string {
	m := make(map[string]string, len(e.Attr))
	for _, a := range e.Attr {
		if _, ok := m[a.Name.Local]; !ok {
			m[a.Name.Local] = a.Value
		}
	}
	return m
}

// blank reports whether text is only white space.
func blank(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }
