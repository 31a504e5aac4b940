package pid1

import (
	"bytes"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func question(t testing.TB, name string, kind dnsmessage.Type) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 0x1234, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNoSuchName(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    dnsmessage.Type
		code    dnsmessage.RCode
		answers int
	}{
		{"pypi.org.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"pypi.org.", dnsmessage.TypeTXT, dnsmessage.RCodeNameError, 0},
		{"notlocalhost.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"LocalHost.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"a.localhost.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 1},
		{"localhost.", dnsmessage.TypeMX, dnsmessage.RCodeSuccess, 0},
	} {
		q := question(t, c.name, c.kind)
		var m dnsmessage.Message
		if err := m.Unpack(noSuchName(q, nil)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if m.ID != 0x1234 || !m.Response || m.RCode != c.code || len(m.Answers) != c.answers || len(m.Questions) != 1 || m.Questions[0].Name.String() != c.name {
			t.Errorf("%s %v: %+v", c.name, c.kind, m)
		}
	}
}

func FuzzNoSuchName(f *testing.F) {
	f.Add(question(f, "pypi.org.", dnsmessage.TypeA))
	f.Add(question(f, "x.localhost.", dnsmessage.TypeAAAA))
	f.Add(bytes.Repeat([]byte{0xc0, 0x0c}, 20))
	f.Add([]byte("\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x3f"))
	f.Fuzz(func(t *testing.T, q []byte) {
		out := noSuchName(q, nil)
		if out == nil {
			return
		}
		if len(out) > len(q)+28 || out[0] != q[0] || out[1] != q[1] {
			t.Errorf("%x: %x", q, out)
		}
		var p dnsmessage.Parser
		if h, err := p.Start(out); err != nil || !h.Response {
			t.Errorf("%x: %v", out, err)
		}
	})
}
