package builtin

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"assay/internal/strict"
)

//go:embed strategies/*.toml
var strategies embed.FS

// maxStrategy bounds a strategy's file, in bytes.
const maxStrategy = 1 << 20

// Strategy is how react works: data, so that an ablation is a flag.
type Strategy struct {
	Protocol   string            `toml:"protocol" json:"protocol"`
	Tools      []string          `toml:"tools" json:"tools"`
	Plan       bool              `toml:"plan" json:"plan"`
	Repair     bool              `toml:"repair" json:"repair"`
	Retries    int               `toml:"retries" json:"retries"`
	Turns      int               `toml:"turns" json:"turns"`
	Calls      int               `toml:"calls" json:"calls"`
	Idle       int               `toml:"idle" json:"idle"`
	Nudge      int               `toml:"nudge" json:"nudge"`
	Stuck      int               `toml:"stuck" json:"stuck"`
	Context    int64             `toml:"context" json:"context"` // tokens
	Compaction string            `toml:"compaction" json:"compaction"`
	Output     int               `toml:"output" json:"output"`           // bytes
	Timeout    int               `toml:"timeout" json:"timeout"`         // seconds
	MaxTimeout int               `toml:"max_timeout" json:"max_timeout"` // seconds
	Env        map[string]string `toml:"env" json:"env,omitempty"`
	Prompts    map[string]string `toml:"prompts" json:"prompts,omitempty"` // instead of those in prompts/, by name
}

// ParseStrategy reads what stands behind "react:": parts with commas between,
// each the name of a strategy that comes with assay, a file (its name ends in
// .toml), or KEY=VALUE. A later part overrides an earlier one; what none says
// is as in strategies/default.toml. read reads a file.
func ParseStrategy(spec string, read func(name string) ([]byte, error)) (Strategy, error) {
	var s Strategy
	if err := s.named("default"); err != nil {
		return s, err
	}
	for part := range strings.SplitSeq(spec, ",") {
		var err error
		switch part = strings.TrimSpace(part); {
		case part == "":
		case strings.HasSuffix(part, ".toml"):
			var text []byte
			if text, err = read(part); err == nil {
				err = s.apply(part, text)
			}
		case strings.Contains(part, "="):
			err = s.set(part)
		default:
			err = s.named(part)
		}
		if err != nil {
			return s, err
		}
	}
	return s, s.check()
}

// Strategies names those that come with assay.
func Strategies() []string {
	files, err := fs.Glob(strategies, "strategies/*.toml")
	if err != nil { // only for a pattern that is none
		return nil
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(path.Base(f), ".toml"))
	}
	return names
}

func (s *Strategy) named(name string) error {
	text, err := strategies.ReadFile("strategies/" + name + ".toml")
	if err != nil {
		return fmt.Errorf("no strategy is named %q; there are %s, files (FILE.toml) and KEY=VALUE", name, strings.Join(Strategies(), ", "))
	}
	return s.apply(name, text)
}

// apply lays what a text says over s. name stands in errors.
func (s *Strategy) apply(name string, text []byte) error {
	if len(text) > maxStrategy {
		return fmt.Errorf("%s: larger than %d bytes", name, maxStrategy)
	}
	return strict.Errors(name, strict.TOML(text, s), "a strategy has no key %q; see strategies/default.toml")
}

// set applies KEY=VALUE: on and off are booleans, and + stands between the
// elements of a list.
func (s *Strategy) set(pair string) error {
	key, value, _ := strings.Cut(pair, "=")
	if !regexp.MustCompile(`^[a-z_]+$`).MatchString(key) {
		return fmt.Errorf("%q is not KEY=VALUE", pair)
	}
	switch _, err := strconv.ParseInt(value, 10, 64); {
	case value == "on" || value == "true":
		value = "true"
	case value == "off" || value == "false":
		value = "false"
	case key == "tools":
		var list []string
		for t := range strings.SplitSeq(value, "+") {
			list = append(list, tomlString(t))
		}
		value = "[" + strings.Join(list, ", ") + "]"
	case err != nil:
		value = tomlString(value)
	case (key == "plan" || key == "repair") && (value == "0" || value == "1"):
		value = strconv.FormatBool(value == "1")
	}
	return s.apply(pair, []byte(key+" = "+value))
}

// tomlString quotes as JSON does, of which TOML's basic strings are a superset
// but for the escapes of DEL and surrogates, which no value here holds.
func tomlString(v string) string {
	b, err := json.Marshal(strings.ToValidUTF8(v, "\ufffd"))
	if err != nil {
		return `""`
	}
	return string(b)
}

// check refuses what no run could work with.
func (s *Strategy) check() error {
	for _, r := range []struct {
		key           string
		value, lo, hi int64
	}{
		{"retries", int64(s.Retries), 0, 1000},
		{"turns", int64(s.Turns), 1, 100_000},
		{"calls", int64(s.Calls), 1, 100},
		{"idle", int64(s.Idle), 1, 100},
		{"nudge", int64(s.Nudge), 1, 1000},
		{"stuck", int64(s.Stuck), int64(s.Nudge), 1000},
		{"context", s.Context, 0, 1 << 40},
		{"output", int64(s.Output), 1000, maxOutput},
		{"timeout", int64(s.Timeout), 1, 86_400},
		{"max_timeout", int64(s.MaxTimeout), int64(s.Timeout), 86_400},
	} {
		if r.value < r.lo || r.value > r.hi {
			return fmt.Errorf("strategy: %s = %d is not within %d and %d", r.key, r.value, r.lo, r.hi)
		}
	}
	for _, w := range []struct {
		key, value string
		words      []string
	}{
		{"protocol", s.Protocol, []string{"auto", "tools", "text"}},
		{"compaction", s.Compaction, []string{"summary", "notes", "off"}},
	} {
		if !slices.Contains(w.words, w.value) {
			return fmt.Errorf("strategy: %s = %q is none of %s", w.key, w.value, strings.Join(w.words, ", "))
		}
	}
	known := toolNames()
	for _, t := range s.Tools {
		if !slices.Contains(known, t) {
			return fmt.Errorf("strategy: there is no tool %q; there are %s", t, strings.Join(known, ", "))
		}
	}
	if !slices.Contains(s.Tools, "submit") {
		return errors.New("strategy: without the tool submit no run could end well")
	}
	_, err := s.prompts()
	return err
}

// Format writes the strategy as a file of its own.
func (s *Strategy) Format() ([]byte, error) { return toml.Marshal(s) }

// digest tells strategies apart: the same settings and prompts, the same word.
func (s *Strategy) digest() string {
	b, err := json.Marshal(s)
	if err != nil { // only plain values
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:4])
}

func (s *Strategy) timeout(asked int) time.Duration {
	if asked <= 0 {
		asked = s.Timeout
	}
	return time.Duration(min(asked, s.MaxTimeout)) * time.Second
}
