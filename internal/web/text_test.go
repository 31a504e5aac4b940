package web

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext":                            "plain\n\ttext",
		"\x1b[1;31mred\x1b[0m":                     "red",
		"\x1b]0;title\x07after":                    "after",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1bPdcs\x1b\\x":                          "x",
		"\x1b(Bcharset":                            "charset",
		"\x1b]never ends":                          "]never ends",
		"\x1b[12":                                  "[12",
		"\x1b":                                     "",
		"a\r\nb":                                   "a\nb",
		"10%\r20%":                                 "10%\n20%",
		"bell\a null\x00 del\x7f":                  "bell␇ null␀ del␡",
		"c1\u009b31m":                              "c1\ufffd31m",
		"bad\xff\xfeutf8":                          "bad\ufffd\ufffdutf8",
		"user\u202e;}gnp.exe":                      "user‹U+202E›;}gnp.exe",
		"größe 猫 😀":                                "größe 猫 😀",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "a\x1b[0mb", "\x1b]x\x1b\\", "\xc3\x28", "\u202e", "\x1b\x1b[[m", "\x9b1m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Clean(%q) is not UTF-8", s)
		}
		for _, r := range got {
			if r != '\n' && r != '\t' && unicode.IsControl(r) || reorders(r) {
				t.Fatalf("Clean(%q) keeps %U", s, r)
			}
		}
		if Clean(got) != got {
			t.Fatalf("Clean(%q) is not stable", s)
		}
	})
}

func TestClip(t *testing.T) {
	long := strings.Repeat("0123456789\n", 1000)
	c := Clip(long, 400)
	if len(c.Head) != 300 || len(c.Tail) != 100 || c.Left != int64(len(long)-400) || c.Size != int64(len(long)) || !c.Long() {
		t.Errorf("head %d, tail %d, left %d of %d", len(c.Head), len(c.Tail), c.Left, c.Size)
	}
	if !strings.HasPrefix(long, c.Head) || !strings.HasSuffix(long, c.Tail) || !strings.Contains(c.All(), "left out") {
		t.Errorf("not the ends of the text: %q", c.All())
	}
	if c := Clip("short", 400); c.Head != "short" || c.Left != 0 || c.Long() {
		t.Errorf("%+v", c)
	}
	if c := Clip("猫猫猫猫", 7); !utf8.ValidString(c.Head+c.Tail) || strings.ContainsRune(c.Head+c.Tail, utf8.RuneError) {
		t.Errorf("a character was cut: %q %q", c.Head, c.Tail)
	}
	for _, limit := range []int{0, -1} {
		if c := Clip("abc", limit); c.Head+c.Tail != "" || c.Left != 3 {
			t.Errorf("limit %d: %+v", limit, c)
		}
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{"a\nb\t c": "a b c", "\x1b[31mx": "x", "": "", strings.Repeat("é", 10): "ééé…",
		"12345\x1b[31m678": "12345678", "1234567890\x1b[31m": "1234567890"} {
		if got := line(in, 10); got != want {
			t.Errorf("line(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNamesKeepTheirEnds(t *testing.T) {
	a, b := name("script:/home/someone/agents/first.sh", 24), name("script:/home/someone/agents/second.sh", 24)
	if a != "script:…gents/first.sh" || a == b || len(b) > 24 {
		t.Errorf("%q, %q", a, b)
	}
	huge := name("\x1b[31m"+strings.Repeat("é", 1<<20)+"end", 40)
	if len(huge) > 40 || !utf8.ValidString(huge) || !strings.HasSuffix(huge, "end") {
		t.Errorf("%q", huge)
	}
}

func TestUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Bytes(0), "0 B"}, {Bytes(1023), "1023 B"}, {Bytes(1536), "1.5 KiB"}, {Bytes(50 << 20), "50 MiB"}, {Bytes(3 << 40), "3072 GiB"},
		{Millis(0.35), "0.3 ms"}, {Millis(31.4), "31 ms"}, {Millis(1400), "1.4 s"}, {Millis(725_000), "12 min 5 s"}, {Millis(-1), "–"},
		{Millis(999.7), "1.0 s"}, {Millis(3 * 3.6e6), "3 h 0 min"},
		{Percent(1), "100 %"}, {Percent(0.1111), "11.1 %"}, {Percent(0), "0 %"},
		{Tokens(nil), "–"}, {Dollars(nil), "–"}, {Tokens(ptr(int64(57_200))), "57.2 k"}, {Dollars(ptr(0.0031)), "$0.0031"}, {Dollars(ptr(0.0)), "$0.00"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func ptr[T any](v T) *T { return &v }
