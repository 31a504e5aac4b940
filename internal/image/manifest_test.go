package image_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"assay/internal/image"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const digestA = "sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"

// The bytes are a format: what they say must not change by accident, since
// every layer id would.
func TestManifestEncoding(t *testing.T) {
	m := image.Manifest{Entries: []image.Entry{
		{Path: ".", Type: image.TypeDir, Mode: 0o755},
		{Path: "a \"q\"\n<&>é", Type: image.TypeFile, Mode: 0o4755, UID: 1, GID: 2, Size: 1, Digest: digestA,
			Xattrs: map[string]string{"user.b": "\xff", "user.a": ""}},
		{Path: "b", Type: image.TypeFile, Mode: 0o4755, Hardlink: "a \"q\"\n<&>é", Size: 1, Digest: digestA},
		{Path: "d", Type: image.TypeDir, Opaque: true},
		{Path: "d/l\xff", Type: image.TypeSymlink, Link: "/\xfe"},
		{Path: "d-", Type: image.TypeWhiteout},
		{Path: "e", Type: image.TypeChar, Mode: 0o600, Major: 1, Minor: 3},
	}}
	want := `{"version":1,"entries":[
{"path":".","type":"dir","mode":"0755","uid":0,"gid":0},
{"path":"a \"q\"\u000a<&>é","type":"file","mode":"4755","uid":1,"gid":2,"xattrs":{"user.a":"","user.b":"/w=="},"size":1,"digest":"` + digestA + `"},
{"path":"b","type":"file","mode":"4755","uid":0,"gid":0,"hardlink":"a \"q\"\u000a<&>é","size":1,"digest":"` + digestA + `"},
{"path":"d","type":"dir","mode":"0000","uid":0,"gid":0,"opaque":true},
{"path":{"base64":"ZC9s/w=="},"type":"symlink","uid":0,"gid":0,"link":{"base64":"L/4="}},
{"path":"d-","type":"whiteout"},
{"path":"e","type":"char","mode":"0600","uid":0,"gid":0,"major":1,"minor":3}
]}
`
	if d := cmp.Diff(want, string(m.Encode())); d != "" {
		t.Error(d)
	}
	back, err := image.DecodeManifest(strings.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m, back); d != "" {
		t.Error(d)
	}
	if got := (image.Manifest{Entries: m.Entries[:1]}).ID(); got != emptyLayer {
		t.Errorf("the empty layer has the id %s", got)
	}
}

const emptyLayer = "sha256:ab2088ffdd9e9c5209613815294590b50fdb086a2ac677e6da5cef65ef4e0b43"

func TestDecodeManifestRefuses(t *testing.T) {
	e := func(path, rest string) string {
		return fmt.Sprintf(`{"path":%q,"type":"dir","mode":"0755","uid":0,"gid":0%s}`, path, rest)
	}
	doc := func(lines ...string) string {
		return "{\"version\":1,\"entries\":[\n" + strings.Join(lines, ",\n") + "\n]}\n"
	}
	good := doc(e(".", ""), e("a", ""))
	if _, err := image.DecodeManifest(strings.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]string{
		"empty":           "",
		"other version":   strings.Replace(good, ":1,", ":2,", 1),
		"torn":            good[:len(good)-4],
		"more":            good + "x",
		"comma at end":    strings.Replace(good, "}\n]", "},\n]", 1),
		"comma missing":   strings.Replace(good, "},\n", "}\n", 1),
		"out of order":    doc(e(".", ""), e("b", ""), e("a", "")),
		"twice":           doc(e(".", ""), e("a", ""), e("a", "")),
		"no parent":       doc(e(".", ""), e("a/b", "")),
		"no root":         doc(e("a", "")),
		"up":              doc(e(".", ""), e("..", "")),
		"unknown key":     doc(e(".", `,"x":1`)),
		"not canonical":   doc(e(".", ` `)),
		"false opaque":    doc(e(".", `,"opaque":false`)),
		"unknown type":    strings.Replace(good, `"dir"`, `"door"`, 1),
		"link to nothing": doc(e(".", ""), `{"path":"a","type":"file","mode":"0644","uid":0,"gid":0,"hardlink":"0","size":0,"digest":""}`),
	} {
		if _, err := image.DecodeManifest(strings.NewReader(in)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestManifestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytesOf := rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOfN(rapid.ByteRange(1, 255), 1, 6).Draw(t, "bytes"))
		})
		entries := map[string]image.Entry{".": {Path: ".", Type: image.TypeDir, Mode: 0o755}}
		for range rapid.IntRange(0, 10).Draw(t, "n") {
			p := strings.ReplaceAll(bytesOf.Draw(t, "path"), "/", "_")
			if p == "." || p == ".." {
				continue
			}
			e := image.Entry{Path: p, Type: image.TypeSymlink, Link: bytesOf.Draw(t, "link"), UID: rapid.IntRange(0, 1<<32-2).Draw(t, "uid")}
			if rapid.Bool().Draw(t, "file") {
				e.Type, e.Link, e.Digest = image.TypeFile, "", digestA
				e.Mode = rapid.Uint32Range(0, 0o7777).Draw(t, "mode")
				e.Xattrs = map[string]string{"user.x": bytesOf.Draw(t, "value")}
			}
			entries[p] = e
		}
		// Within one directory the order is that of bytes, with the root first.
		keys := slices.Sorted(maps.Keys(entries))
		m := image.Manifest{Entries: []image.Entry{entries["."]}}
		for _, k := range keys {
			if k != "." {
				m.Entries = append(m.Entries, entries[k])
			}
		}
		back, err := image.DecodeManifest(bytes.NewReader(m.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, back); d != "" || back.ID() != m.ID() {
			t.Fatal(d)
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	f.Add([]byte("{\"version\":1,\"entries\":[\n{\"path\":\".\",\"type\":\"dir\",\"mode\":\"0755\",\"uid\":0,\"gid\":0}\n]}\n"))
	f.Add([]byte("{\"version\":1,\"entries\":[\n{\"path\":{\"base64\":\"/w==\"},\"type\":\"whiteout\"}\n]}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := image.DecodeManifest(bytes.NewReader(b))
		if err != nil {
			return
		}
		if !bytes.Equal(m.Encode(), b) {
			t.Errorf("two spellings of one manifest:\n%q\n%q", b, m.Encode())
		}
	})
}
