package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Normalisation names what [Plain] and [Document] make equal. A change of
// theirs changes the name.
const Normalisation = "replay-1"

// rules are applied in order.
type rule struct {
	re *regexp.Regexp
	to string
}

// normaliser makes equal what differs from run to run: times, durations, ids,
// names of trials and of temporary files, addresses, capabilities.
type normaliser struct {
	rules []rule
	memo  map[string]string // of texts that were met; nil: none is kept
}

func newNormaliser() *normaliser {
	const (
		month = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*`
		day   = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*`
	)
	n := &normaliser{}
	for _, r := range [][2]string{
		{`assay-[a-z2-7]{32}|\*{16,}`, "<key>"},
		{`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`, "<id>"},
		{`/s/[0-9a-f]{16}\b`, "/s/<id>"},
		{`\b(?:call|toolu|chatcmpl|resp|msg|req|rs|fc|ctc)[_-][A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*`, "<id>"},
		{`__[A-Za-z0-9]{7}\b`, "__<trial>"},
		{`/tmp/tmp\.?[A-Za-z0-9_]+`, "/tmp/<tmp>"},
		{`\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?`, "<time>"},
		{`\b(?:` + day + `,? )?` + month + ` +\d{1,2}(?:,? \d{4}\b)?(?:,? +\d{1,2}:\d\d(?::\d\d)?)?(?: (?:AM|PM))?(?: [A-Z]{3,4})?(?: \d{4})?\b`, "<time>"},
		{`\b(?:` + day + `,? )?\d{1,2} ` + month + `,? \d{4}(?:,? +\d{1,2}:\d\d(?::\d\d)?)?\b`, "<time>"},
		{`\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b`, "<time>"},
		{`\b1[6-9]\d{8}(?:\d{3})?(?:\.\d+)?\b`, "<time>"},
		{`\b\d+(?:\.\d+)? ?(?:ms|µs)\b|\b\d+\.\d+ ?s(?:ec(?:onds?)?)?\b`, "<duration>"},
		{`\b0x[0-9a-f]{6,}\b`, "<address>"},
		{`\b[0-9a-f]{40}\b`, "<hash>"},
	} {
		n.rules = append(n.rules, rule{regexp.MustCompile(r[0]), r[1]})
	}
	return n
}

func (n *normaliser) plain(text string) string {
	asked := text
	if done, ok := n.memo[asked]; ok {
		return done
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for _, r := range n.rules {
		text = r.re.ReplaceAllString(text, r.to)
	}
	if n.memo != nil {
		n.memo[asked] = text
	}
	return text
}

// Plain is text with what differs from run to run made equal.
func Plain(text string) string { return newNormaliser().plain(text) }

// Document is a JSON document with every text in it made [Plain], and numbers
// that are times and durations by their keys made 0; sessions and models lose
// their names. Its fields stand in alphabetical order.
func Document(doc []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("normalise a document: %w", err)
	}
	n := newNormaliser()
	return json.MarshalIndent(n.walk("", v), "", "  ")
}

func (n *normaliser) walk(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "model_name") // a replay goes by a name of its own
		for k, one := range v {
			v[k] = n.walk(k, one)
		}
	case []any:
		for i, one := range v {
			v[i] = n.walk(key, one)
		}
	case json.Number:
		if timed(key) {
			return 0
		}
	case string:
		switch key {
		case "session_id", "trajectory_id":
			return "<id>"
		}
		return n.plain(v)
	}
	return v
}

func timed(key string) bool {
	for _, end := range []string{"_ms", "_ns", "_sec", "_seconds", "duration", "_s"} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return key == "ms" || key == "wall" || key == "time"
}
