package history

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// closing references, as code hosts read them: "Fixes #12", "closes: org/repo#12", "resolves https://…/issues/12"
	closing = regexp.MustCompile(`(?i)\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?)\b:?\s+(?:issues?\s+)?((?:(?:[\w.-]+/[\w.-]+)?#\d+|gh-\d+|https?://\S+?/(?:issues|pull|merge_requests|work_items)/\d+|[A-Z][A-Z0-9]{1,9}-\d+)(?:\s*(?:,|and|&)\s*(?:(?:[\w.-]+/[\w.-]+)?#\d+|[A-Z][A-Z0-9]{1,9}-\d+))*)`)
	mention = regexp.MustCompile(`(?i)(?:\B#|\bgh-|\b(?:issue|bug|ticket|pr|pull request|bpo)[ #-]{1,2})(\d{1,7})\b|/(?:issues|pull|merge_requests|work_items)/(\d{1,7})\b`)
	jiraKey = regexp.MustCompile(`\b[A-Z][A-Z0-9]{1,9}-\d{1,6}\b`)
	number  = regexp.MustCompile(`\d+`)
)

// reference is an issue that a text names: "12", or "PROJ-12".
type reference struct {
	key    string
	closes bool // by a word that code hosts take as closing it
}

// references lists the issues that a message names, those that it closes first.
func references(message string) []reference {
	var all []reference
	add := func(key string, closes bool) {
		for i := range all {
			if all[i].key == key {
				all[i].closes = all[i].closes || closes
				return
			}
		}
		all = append(all, reference{key, closes})
	}
	for _, m := range closing.FindAllStringSubmatch(message, 50) {
		for _, one := range regexp.MustCompile(`[,&]|\band\b`).Split(m[1], -1) {
			if k := jiraKey.FindString(one); k != "" && !strings.HasPrefix(strings.ToLower(k), "gh-") {
				add(k, true)
			} else if n := number.FindAllString(one, -1); len(n) > 0 {
				add(strings.TrimLeft(n[len(n)-1], "0"), true)
			}
		}
	}
	for _, m := range mention.FindAllStringSubmatch(message, 50) {
		add(strings.TrimLeft(m[1]+m[2], "0"), false)
	}
	for _, k := range jiraKey.FindAllString(message, 50) {
		if !strings.HasPrefix(k, "GH-") {
			add(k, false)
		}
	}
	slices.SortStableFunc(all, func(a, b reference) int {
		switch {
		case a.closes == b.closes:
			return 0
		case a.closes:
			return -1
		}
		return 1
	})
	return all
}
