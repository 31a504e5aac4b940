package catalog

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/model"
)

const good = `
[models.big]
id = "big-2026"
provider = "someone"
url = "https://api.example.com/v1"
dialects = ["responses", "chat"]
credential = { env = "BIG_KEY" }
price = { input = 2.0, cached = 0.5, output = 8.0 }
context = 200000

[models.inside]
url = "http://10.0.0.3:8000/v1"
ca = "corp.pem"
no_tools = true

  [models.inside.credential]
  command = ["get-token", "--quiet"]
  ttl = "50m"

[models."fixed answers"]
`

func TestRead(t *testing.T) {
	text := strings.Replace(good, `[models."fixed answers"]`, "[models.fixed]\nscripted = \"s.toml\"\n", 1)
	path := filepath.Join(t.TempDir(), "models.toml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	big, err := c.Find("big")
	if err != nil || big.ModelID() != "big-2026" || big.Credential.Env != "BIG_KEY" || big.Context != 200000 {
		t.Errorf("%+v, %v", big, err)
	}
	in, err := c.Find("inside")
	if err != nil || in.ModelID() != "inside" || time.Duration(in.Credential.TTL) != 50*time.Minute || !in.NoTools || in.CA != filepath.Join(filepath.Dir(path), "corp.pem") {
		t.Errorf("%+v, %v", in, err)
	}
	if fixed, err := c.Find("fixed"); err != nil || fixed.Scripted != filepath.Join(filepath.Dir(path), "s.toml") {
		t.Errorf("%+v, %v", fixed, err)
	}
	if _, err := c.Find("small"); err == nil || !strings.Contains(err.Error(), "big, fixed, inside") {
		t.Errorf("an unknown name: %v", err)
	}
}

// Whatever is wrong is told with its line, all of it at once.
func TestReadTellsWhereItIsWrong(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{good, `m.toml:20: "fixed answers" cannot be`},
		{"[models.a]\nurl = 3\n", "m.toml:2:7: "},
		{"[models.a]\nurll = \"x\"\n", `m.toml:2:1: no key of a model is called "models.a.urll"`},
		{"[models.a]\nid = \"x\"\n", "m.toml:1: model a: give exactly one of url, scripted and replay"},
		{"[models.a]\nid = \"x\"\nurl = \"ftp://x\"\n", `m.toml:3: model a: "ftp://x" is no http`},
		{"[models.a]\nurl = \"https://me:secret@x/v1\"\n", "credentials, queries and fragments do not belong here"},
		{"[models.a]\nurl = \"https://x\"\nheaders = { X-Api-Key = \"k\" }\n", "m.toml:3: model a: X-Api-Key is a credential"},
		{"[models.a]\nurl = \"https://x\"\n[models.a.credential]\nenv = \"A\"\nfile = \"b\"\n", "m.toml:3: model a: give exactly one of env, file and command"},
		{"[models.a]\nurl = \"https://x\"\ndialects = [\"french\"]\n", `m.toml:3: model a: no dialect is called "french"`},
		{"[models.a]\nurl = \"https://x\"\nprice = { input = -1.0, output = 1.0 }\n", "m.toml:3: model a: input = -1 is no price"},
		{"[models.a]\nurl = \"https://x\"\ncredential = { command = [\"x\"], ttl = \"soon\" }\n", "soon"},
	} {
		_, err := parse("m.toml", "/", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("the error tells a password: %v", err)
		}
	}
}

func TestFindWithoutAFile(t *testing.T) {
	var none Catalog
	e, err := none.Find("scripted:dir/fix.toml")
	if err != nil || e.Name != "scripted:fix.toml" || !filepath.IsAbs(e.Scripted) || len(e.Dialects) != 4 {
		t.Errorf("%+v, %v", e, err)
	}
	e, err = none.Find("qwen@http://127.0.0.1:8000/v1")
	if err != nil || e.Name != "qwen" || e.URL != "http://127.0.0.1:8000/v1" || !slices.Equal(e.Dialects, []model.Dialect{model.Chat}) {
		t.Errorf("%+v, %v", e, err)
	}
	for _, bad := range []string{"", "big", "scripted:", "@http://x", "a@http://", "a@ftp://x"} {
		if _, err := none.Find(bad); err == nil {
			t.Errorf("%q was found", bad)
		}
	}
}

func TestSpeaks(t *testing.T) {
	e := Entry{Dialects: []model.Dialect{model.Chat}}
	for _, c := range []struct {
		agent    []model.Dialect
		provider []model.Dialect
		own, up  model.Dialect
	}{
		{[]model.Dialect{model.Responses, model.Chat}, []model.Dialect{model.Chat}, model.Chat, model.Chat},
		{[]model.Dialect{model.Messages}, []model.Dialect{model.Chat}, model.Messages, model.Chat},
		{[]model.Dialect{model.Messages}, nil, model.Messages, model.Messages},
	} {
		e.Dialects = c.provider
		if own, up, err := e.Speaks(c.agent); own != c.own || up != c.up || err != nil {
			t.Errorf("%v with %v: %s, %s, %v", c.agent, c.provider, own, up, err)
		}
	}
	if _, _, err := e.Speaks(nil); err == nil {
		t.Error("an agent without a dialect")
	}
}

// What is unknown is unknown: never zero, and never less than the bill.
func TestCost(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	d := func(v float64) *float64 { return &v }
	full := &Price{Input: d(2), Cached: d(0.5), CacheWrite: d(2.5), Output: d(8)}
	for _, c := range []struct {
		price *Price
		usage *model.Usage
		want  *float64
	}{
		{full, &model.Usage{Input: n(1_000_000), Output: n(500_000)}, d(6)},
		{full, &model.Usage{Input: n(1_000_000), Cached: n(400_000), CacheWrite: n(100_000), Output: n(0)}, d(1 + 0.2 + 0.25)},
		{&Price{Input: d(2), Output: d(8)}, &model.Usage{Input: n(1_000_000), Cached: n(400_000), Output: n(0)}, d(2)},
		{&Price{Output: d(8)}, &model.Usage{Input: n(1), Output: n(1)}, nil},
		{&Price{Input: d(2)}, &model.Usage{Input: n(1_000_000), Output: n(0)}, d(2)},
		{full, &model.Usage{Input: n(1)}, nil},
		{full, nil, nil},
		{nil, &model.Usage{Input: n(1), Output: n(1)}, nil},
	} {
		got := c.price.Cost(c.usage)
		if (got == nil) != (c.want == nil) || got != nil && math.Abs(*got-*c.want) > 1e-9 {
			t.Errorf("%+v for %+v: %v, want %v", c.price, c.usage, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parse("m.toml", "/", b)
		if err != nil {
			return
		}
		for _, e := range c.Entries {
			if len(e.problems()) > 0 {
				t.Errorf("%+v was taken", e)
			}
		}
	})
}
