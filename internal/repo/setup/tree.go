package setup

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"assay/internal/repo"
	"assay/internal/syntax"
)

// tree is a copied tree to be looked at. Paths are relative to where it was
// opened, with slashes.
type tree struct {
	root  string
	files []string // regular files, sorted: the shallow ones first
	size  map[string]int64
	dirs  map[string]bool
}

func readTree(dir string) (*tree, error) {
	t := &tree{root: dir, size: map[string]int64{}, dirs: map[string]bool{}}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir():
			t.dirs[rel] = true
		case d.Type().IsRegular():
			fi, err := d.Info()
			if err != nil {
				return err
			}
			t.files, t.size[rel] = append(t.files, rel), fi.Size()
		}
		return nil
	})
	slices.SortFunc(t.files, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	return t, err
}

// below is the part of a tree under a directory of it.
func (t *tree) below(dir string) *tree {
	if dir == "" || dir == "." {
		return t
	}
	s := &tree{root: filepath.Join(t.root, filepath.FromSlash(dir)), size: map[string]int64{}, dirs: map[string]bool{".": true}}
	for _, f := range t.files {
		if rel, ok := strings.CutPrefix(f, dir+"/"); ok {
			s.files, s.size[rel] = append(s.files, rel), t.size[f]
		}
	}
	for d := range t.dirs {
		if rel, ok := strings.CutPrefix(d, dir+"/"); ok {
			s.dirs[rel] = true
		}
	}
	return s
}

// maxRead is what is read of a file to recognise something.
const maxRead = 1 << 20

// text is the beginning of a file; empty where it cannot be read.
func (t *tree) text(name string) string {
	r, err := os.OpenRoot(t.root)
	if err != nil {
		return ""
	}
	defer r.Close()
	f, err := r.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRead))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.ReplaceAll(string(b), "\r\n", "\n"), "?")
}

// match lists the files that a pattern names: one of path.Match, or "**/" and
// one for names at any depth.
func (t *tree) match(pattern string) []string {
	deep, any := strings.CutPrefix(pattern, "**/")
	var out []string
	for _, f := range t.files {
		name, p := f, pattern
		if any {
			parts := strings.Split(f, "/")
			n := strings.Count(deep, "/") + 1
			if len(parts) < n {
				continue
			}
			name, p = strings.Join(parts[len(parts)-n:], "/"), deep
		}
		if ok, err := path.Match(p, name); ok && err == nil {
			out = append(out, f)
		}
	}
	return out
}

func (t *tree) has(pattern string) bool { return len(t.match(pattern)) > 0 || t.dirs[pattern] }

// aside are directories whose files are no part of what a project is written in.
func aside(p string) bool {
	return slices.ContainsFunc(strings.Split(path.Dir(p), "/"), func(d string) bool {
		return slices.Contains([]string{"vendor", "third_party", "thirdparty", "3rdparty", "node_modules", "docs", "doc", "examples", "example", "dist"}, d)
	})
}

// languages are those of the sources by size, the main one first.
func (t *tree) languages() []string {
	sum := map[string]int64{}
	for _, f := range t.files {
		if l, ok := syntax.ByPath(f); ok && !aside(f) {
			sum[string(l)] += t.size[f]
		}
	}
	names := make([]string, 0, len(sum))
	for l := range sum {
		names = append(names, l)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(sum[b], sum[a]), cmp.Compare(a, b)) })
	return names
}

// bytes are those of the files with one of these endings.
func (t *tree) bytes(endings []string) int64 {
	var n int64
	for _, f := range t.files {
		if slices.Contains(endings, path.Ext(f)) && !aside(f) {
			n += t.size[f]
		}
	}
	return n
}

// licence recognises the common ones by their own words.
func (t *tree) licence() string {
	text := ""
	for _, p := range []string{"LICENSE*", "LICENCE*", "COPYING*", "License*", "license*", "MIT-LICENSE*"} {
		for _, f := range t.match(p) {
			text += t.text(f)
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	has := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case has("GNU AFFERO GENERAL PUBLIC LICENSE"):
		return "AGPL-3.0"
	case has("Apache License") && has("Version 2.0"):
		return "Apache-2.0"
	case has("GNU LESSER GENERAL PUBLIC LICENSE Version 3"):
		return "LGPL-3.0"
	case has("GNU LESSER GENERAL PUBLIC LICENSE"):
		return "LGPL-2.1"
	case has("GNU GENERAL PUBLIC LICENSE Version 3"):
		return "GPL-3.0"
	case has("GNU GENERAL PUBLIC LICENSE"):
		return "GPL-2.0"
	case has("Mozilla Public License") && has("2.0"):
		return "MPL-2.0"
	case has("Permission is hereby granted, free of charge"):
		return "MIT"
	case has("Permission to use, copy, modify, and/or distribute"), has("Permission to use, copy, modify, and distribute this software for any purpose"):
		return "ISC"
	case has("Redistribution and use in source and binary forms") && (has("Neither the name") || has("may not be used to endorse")):
		return "BSD-3-Clause"
	case has("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("This is free and unencumbered software released into the public domain"):
		return "Unlicense"
	case has("This software is provided 'as-is', without any express or implied warranty"):
		return "Zlib"
	}
	return ""
}

// NameOf makes an environment's name of a path or URL: letters, digits, "-".
func NameOf(where string) string {
	s := strings.TrimSuffix(strings.TrimRight(repo.CleanURL(where), "/"), ".git")
	if abs, err := filepath.Abs(s); err == nil && !isURL(where) {
		s = abs
	}
	s = s[strings.LastIndexAny(s, "/:\\")+1:]
	s = strings.Trim(strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, s), "-")
	if len(s) > 40 {
		s = strings.Trim(s[:40], "-")
	}
	if s == "" {
		return "repo"
	}
	return s
}

// versionIn is the version that a tag names.
func versionIn(tag string) string {
	return regexp.MustCompile(`\d+(\.\d+)+`).FindString(tag)
}
