package model

import (
	"regexp"
	"strings"
)

var version = regexp.MustCompile(`^v\d+[a-z0-9]*$`)

// URL joins a provider's base URL and a codec's path. Official clients differ
// in whether a base ends in its version (…/v1) or not; here both do, and one
// with a version of its own (…/api/paas/v4, …/v1beta/openai) keeps it.
func URL(base, path string) string {
	base = strings.TrimRight(base, "/")
	_, rest, _ := strings.Cut(base, "://")
	first, after, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !ok || !version.MatchString(first) {
		return base + path
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if version.MatchString(segment) {
			return base + "/" + after
		}
	}
	return base + path
}

// DialectOf says which dialect a POST to path speaks. The path is that after
// whatever identifies a session or a base, in the form of any client:
// "/v1/chat/completions", "/responses".
func DialectOf(path string) (Dialect, bool) {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimRight(path, "/")
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat, true
	case last == "responses":
		return Responses, true
	case last == "messages":
		return Messages, true
	case strings.HasSuffix(last, ":generateContent"), strings.HasSuffix(last, ":streamGenerateContent"):
		return Gemini, true
	}
	return "", false
}
