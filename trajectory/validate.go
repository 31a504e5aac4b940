package trajectory

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFindings bounds what a hostile document can make Validate return.
const maxFindings = 1000

// maxDepth bounds recursion into embedded subagents; the reference gives up at
// about the same depth.
const maxDepth = 200

// Validate checks a document against every rule of the format and returns all
// findings in document order (at most 1,000), none for a valid document. It
// accepts what Harbor's own validator accepts, with one exception: NaN and
// Infinity are not JSON.
func Validate(data []byte) []Finding { return validate(data, "") }

// ValidateFile checks a file, and that the image and audio files its steps
// name exist, relative to it. URLs are not looked up.
func ValidateFile(name string) ([]Finding, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("validate trajectory: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("validate trajectory %q: %w", name, err)
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("validate trajectory %q: larger than %d MiB", name, MaxSize>>20)
	}
	return validate(data, filepath.Dir(name)), nil
}

func validate(data []byte, dir string) []Finding {
	c := &checker{}
	if !json.Valid(data) {
		c.add("$", RuleJSON, "not valid JSON")
		return c.found
	}
	v, err := decode(data)
	if err != nil {
		c.add("$", RuleJSON, "%v", err)
		return c.found
	}
	doc, ok := v.(map[string]any)
	if !ok {
		c.add("$", RuleJSON, "a trajectory is a JSON object, not %s", kind(v))
		return c.found
	}
	c.trajectory("$", doc, 0)
	if dir != "" {
		c.mediaFiles(doc, dir)
	}
	return c.found
}

// checker walks a decoded document and collects findings.
type checker struct{ found []Finding }

func (c *checker) add(path string, r Rule, format string, args ...any) {
	if len(c.found) < maxFindings {
		c.found = append(c.found, Finding{path, r, fmt.Sprintf(format, args...)})
	}
}

// check looks at one value that is there and not null.
type check func(c *checker, path string, v any)

// key is one key of an object: how its value is checked, and whether it must
// be there. A key that must be there cannot be null either.
type key struct {
	name  string
	must  bool
	check check
}

// object checks keys in their order and names unknown ones. It reports false
// for a value that is no object.
func (c *checker) object(path string, v any, keys []key) (map[string]any, bool) {
	o, ok := v.(map[string]any)
	if !ok {
		c.add(path, RuleType, "must be an object, not %s", kind(v))
		return nil, false
	}
	known := map[string]bool{}
	for _, k := range keys {
		known[k.name] = true
		at := path + "." + k.name
		value, there := o[k.name]
		switch {
		case !there && k.must:
			c.add(at, RuleMissing, "required")
		case !there || value == nil && !k.must:
		case value == nil:
			c.add(at, RuleType, "must not be null")
		default:
			k.check(c, at, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !known[name] {
			c.add(path+"."+name, RuleUnknown, "not a key of the format; put it into extra")
		}
	}
	return o, true
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	}
	return "an object"
}

func text(c *checker, path string, v any) {
	if _, ok := v.(string); !ok {
		c.add(path, RuleType, "must be a string, not %s", kind(v))
	}
}

func integer(c *checker, path string, v any) {
	if _, ok := laxInt(v); !ok {
		c.add(path, RuleType, "must be an integer, not %s", kind(v))
	}
}

func number(c *checker, path string, v any) {
	if _, ok := laxFloat(v); !ok {
		c.add(path, RuleType, "must be a number, not %s", kind(v))
	}
}

func boolean(c *checker, path string, v any) {
	if _, ok := laxBool(v); !ok {
		c.add(path, RuleType, "must be true or false, not %s", kind(v))
	}
}

func anyObject(c *checker, path string, v any) {
	if _, ok := v.(map[string]any); !ok {
		c.add(path, RuleType, "must be an object, not %s", kind(v))
	}
}

func count(c *checker, path string, v any) {
	n, ok := laxInt(v)
	if !ok {
		c.add(path, RuleType, "must be an integer, not %s", kind(v))
	} else if n < 0 {
		c.add(path, RuleNegative, "must be 0 or more")
	}
}

func textOrNumber(c *checker, path string, v any) {
	if _, ok := v.(string); ok {
		return
	}
	if _, ok := laxFloat(v); !ok {
		c.add(path, RuleType, "must be a string or a number, not %s", kind(v))
	}
}

func oneOf(r Rule, words ...string) check {
	return func(c *checker, path string, v any) {
		if s, ok := v.(string); !ok || !slices.Contains(words, s) {
			c.add(path, r, "must be one of %s", strings.Join(words, ", "))
		}
	}
}

// list checks every element; null elements are of the wrong type.
func list(element check) check {
	return func(c *checker, path string, v any) {
		all, ok := v.([]any)
		if !ok {
			c.add(path, RuleType, "must be a list, not %s", kind(v))
			return
		}
		for i, e := range all {
			at := fmt.Sprintf("%s[%d]", path, i)
			if e == nil {
				c.add(at, RuleType, "must not be null")
				continue
			}
			element(c, at, e)
		}
	}
}

// mediaFiles checks that the local media of the document's own steps exist;
// like the reference it leaves embedded documents alone.
func (c *checker) mediaFiles(doc map[string]any, dir string) {
	steps, _ := doc["steps"].([]any)
	for i, s := range steps {
		step, _ := s.(map[string]any)
		at := fmt.Sprintf("$.steps[%d]", i)
		c.mediaParts(step["message"], at+".message", dir)
		observation, _ := step["observation"].(map[string]any)
		results, _ := observation["results"].([]any)
		for j, r := range results {
			result, _ := r.(map[string]any)
			c.mediaParts(result["content"], fmt.Sprintf("%s.observation.results[%d].content", at, j), dir)
		}
	}
}

func (c *checker) mediaParts(content any, at, dir string) {
	parts, _ := content.([]any)
	for i, p := range parts {
		part, _ := p.(map[string]any)
		source, _ := part["source"].(map[string]any)
		name, _ := source["path"].(string)
		if t := part["type"]; t != "image" && t != "audio" || name == "" || strings.Contains(name, "://") {
			continue
		}
		full := name
		if !filepath.IsAbs(name) {
			full = filepath.Join(dir, name)
		}
		if _, err := os.Stat(full); err != nil {
			c.add(fmt.Sprintf("%s[%d].source.path", at, i), RuleMediaFile, "%s file %q does not exist", part["type"], name)
		}
	}
}
