package external

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"assay/internal/image"
)

const fakeLoader = "\x7fELF..\x00/lib/x86_64-linux-gnu/\x00/usr/lib/x86_64-linux-gnu/\x00/lib/\x00/usr/lib/\x00text /lib/ stays\x00" +
	"/etc/ld.so.cache\x00and /etc/ld.so.cache\x00/etc/ld.so.preload\x00/lib/x86_64-linux-gnu/\x00end"

func TestPatchLoader(t *testing.T) {
	got, err := patchLoader([]byte(fakeLoader), "/opt/assay/codex")
	if err != nil {
		t.Fatal(err)
	}
	cache := strings.Repeat("\x00", len("/etc/ld.so.cache"))
	want := "\x7fELF..\x00/opt/assay/codex/l///\x00/opt/assay/codex/l////////\x00/dev/\x00/dev/////\x00text /lib/ stays\x00" +
		cache + "\x00and /etc/ld.so.cache\x00/opt/assay/codex/p\x00/opt/assay/codex/l///\x00end"
	want = strings.Replace(want, "/opt/assay/codex/l///\x00", "/opt/assay/codex/l////\x00", -1)
	if string(got) != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	for _, c := range []struct{ loader, want string }{
		{strings.ReplaceAll(fakeLoader, "x86_64-linux-gnu/", ""), "based on Debian or Ubuntu"},
		{strings.ReplaceAll(fakeLoader, "/lib/x86_64-linux-gnu/", "/lib64/"), "based on Debian or Ubuntu"},
		{strings.ReplaceAll(fakeLoader, "\x00/etc/ld.so.cache", "\x00nothing"), "does not name /etc/ld.so.cache"},
		{strings.ReplaceAll(fakeLoader, "/etc/ld.so.preload", "nothing"), "does not name /etc/ld.so.preload"},
		{"", "based on Debian or Ubuntu"},
	} {
		if _, err := patchLoader([]byte(c.loader), "/opt/assay/codex"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if _, err := patchLoader([]byte(fakeLoader), "/opt/assay/too-long"); err == nil {
		t.Error("a path too long was written")
	}
}

// The loader of this machine, where it is Debian's or one like it.
func TestPatchRealLoader(t *testing.T) {
	b, err := os.ReadFile(loaders()[0])
	if err != nil {
		t.Skip(err)
	}
	got, err := patchLoader(b, "/opt/assay/codex")
	if err != nil {
		t.Skip(err)
	}
	if len(got) != len(b) || bytes.Contains(got, []byte("\x00/etc/ld.so.cache\x00")) || !bytes.Contains(got, []byte("\x00/opt/assay/codex/l/")) {
		t.Error("the loader was not patched")
	}
}

func TestShebang(t *testing.T) {
	for _, c := range []struct {
		runtime    Runtime
		line, want string
	}{
		{RuntimeNode, "#!/usr/bin/env node", "#!/opt/assay/x/bin/node"},
		{RuntimeNode, "#! /usr/bin/env -S node --no-warnings", "#!/opt/assay/x/bin/node --no-warnings"},
		{RuntimeNode, "#!/usr/bin/env -S node --a --b", "#!/usr/bin/env -S node --a --b"},
		{RuntimeNode, "#!/usr/local/bin/node", "#!/opt/assay/x/bin/node"},
		{RuntimeNode, "#!/bin/sh", "#!/bin/sh"},
		{RuntimeNode, "#!/usr/bin/env python3", "#!/usr/bin/env python3"},
		{RuntimeNode, "#!", "#!"},
		{RuntimeNode, "#!/usr/bin/env", "#!/usr/bin/env"},
		{RuntimePython, "#!/opt/assay/x/bin/python3.11", "#!/opt/assay/x/bin/python3 -Iu"},
		{RuntimePython, "#!/usr/bin/env python", "#!/opt/assay/x/bin/python3 -Iu"},
		{RuntimePython, "#!/usr/bin/perl -w", "#!/usr/bin/perl -w"},
		{RuntimeNone, "#!/usr/bin/env node", "#!/usr/bin/env node"},
	} {
		p := packer{recipe: Recipe{Install: Install{Runtime: c.runtime}}, place: "/opt/assay/x"}
		if got := p.shebang(c.line); got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
}

// Programs of packages are hostile: reading one is an error or harmless.
func FuzzELF(f *testing.F) {
	for _, p := range []string{"/bin/true", loaders()[0]} {
		if b, err := os.ReadFile(p); err == nil {
			f.Add(b[:min(len(b), 64<<10)])
			f.Add(b[:min(len(b), 4<<10)])
		}
	}
	f.Add([]byte(elfMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readELF(bytes.NewReader(b))
		if err != nil {
			return
		}
		patch, err := p.interpPatch(image.Path("/opt/assay/codex"))
		if err == nil && patch != nil && (int64(len(patch)) >= p.room || p.at < 0 || p.at+int64(len(patch)) > int64(len(b))) {
			t.Errorf("%d bytes at %d of %d, room for %d", len(patch), p.at, len(b), p.room)
		}
		_, _ = patchLoader(b, "/opt/assay/codex")
	})
}
