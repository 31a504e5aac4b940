package dockerfile

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// vars are the variables of one stage. As in BuildKit, ARG and ENV write to one
// list and the later wins, whatever the reference says about ENV.
type vars struct {
	lex   *shell.Lex
	build map[string]string // given from outside
	meta  []string          // of ARG before FROM, and what the platform sets
	list  []string          // "KEY=value" that instructions after FROM see
}

func newVars(escape rune, build map[string]string, target string) *vars {
	if target == "" {
		target = "default"
	}
	platform := "linux/" + runtime.GOARCH
	v := &vars{lex: shell.NewLex(escape), build: build, meta: []string{
		"BUILDPLATFORM=" + platform, "BUILDOS=linux", "BUILDOSVERSION=", "BUILDARCH=" + runtime.GOARCH, "BUILDVARIANT=",
		"TARGETPLATFORM=" + platform, "TARGETOS=linux", "TARGETOSVERSION=", "TARGETARCH=" + runtime.GOARCH, "TARGETVARIANT=",
		"TARGETSTAGE=" + target,
	}}
	for _, kv := range slices.Clone(v.meta) {
		k, _, _ := strings.Cut(kv, "=")
		if given, ok := build[k]; ok {
			v.meta = set(v.meta, k, given)
		}
	}
	return v
}

// set adds a variable in place of one of that name.
func set(list []string, key, value string) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		return k == key
	})
	return append(list, key+"="+value)
}

// replace is set where an image's configuration keeps its order.
func replace(list []string, key, value string) []string {
	i := slices.IndexFunc(list, func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		return k == key
	})
	list = slices.Clone(list)
	if i < 0 {
		return append(list, key+"="+value)
	}
	list[i] = key + "=" + value
	return list
}

// again puts what an image's configuration says after what a stage left: as in
// BuildKit, ENV counts again in a stage upon it, whatever ARG said after it.
func again(list, env []string) []string {
	names := map[string]bool{}
	for _, kv := range env {
		k, _, _ := strings.Cut(kv, "=")
		names[k] = true
	}
	list = slices.DeleteFunc(slices.Clone(list), func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		return names[k]
	})
	return append(list, env...)
}

func get(list []string, key string) (string, bool) {
	for _, kv := range slices.Backward(list) {
		if k, v, _ := strings.Cut(kv, "="); k == key {
			return v, true
		}
	}
	return "", false
}

func (v *vars) put(key, value string) { v.list = set(v.list, key, value) }

// fork is for a stage: the variables of its base's configuration, or, upon
// another stage, that stage's.
func (v *vars) fork(list []string) *vars {
	// A Lex keeps state while it works; stages are built side by side.
	lex := *v.lex
	return &vars{lex: &lex, build: v.build, meta: v.meta, list: slices.Clone(list)}
}

// maxExpanded is how long a word may become by its variables, in bytes.
const maxExpanded = 16 << 20

// affordable refuses a word whose variables could make it too long: each line
// that names one ten times would make it ten times longer.
func affordable(word string, env []string) error {
	n, longest := strings.Count(word, "$"), 0
	if n == 0 {
		return nil
	}
	for _, kv := range env {
		longest = max(longest, len(kv))
	}
	if n*longest > maxExpanded {
		return fmt.Errorf("%d variables of up to %d bytes: more than %d bytes in a word", n, longest, maxExpanded)
	}
	return nil
}

func (v *vars) expand(env []string) instructions.SingleWordExpander {
	return func(word string) (string, error) {
		if err := affordable(word, env); err != nil {
			return "", err
		}
		s, _, err := v.lex.ProcessWord(word, shell.EnvsFromSlice(env))
		return s, err
	}
}

// raw replaces variables in a here-document and leaves its quotes alone.
func (v *vars) raw(text string) (string, error) {
	if err := affordable(text, v.list); err != nil {
		return "", err
	}
	lex := shell.NewLex('\\')
	lex.SkipProcessQuotes = true
	s, _, err := lex.ProcessWord(text, shell.EnvsFromSlice(v.list))
	return s, err
}

func (v *vars) words(word string) ([]string, error) {
	if err := affordable(word, v.list); err != nil {
		return nil, err
	}
	return v.lex.ProcessWords(word, shell.EnvsFromSlice(v.list))
}

// declareMeta handles ARG before FROM.
func (v *vars) declareMeta(kvs []instructions.KeyValuePairOptional) error {
	for _, kv := range kvs {
		value := ""
		if given, ok := v.build[kv.Key]; ok {
			value = given
		} else if kv.Value != nil {
			var err error
			if value, err = v.expand(v.meta)(*kv.Value); err != nil {
				return err
			}
		} else if _, ok := get(v.meta, kv.Key); ok {
			continue
		}
		v.meta = set(v.meta, kv.Key, value)
	}
	return nil
}

// declare handles ARG after FROM: the value given from outside, else the one
// before FROM where this line has none, else the line's default.
func (v *vars) declare(kvs []instructions.KeyValuePairOptional) error {
	for _, kv := range kvs {
		if given, ok := v.build[kv.Key]; ok {
			v.put(kv.Key, given)
		} else if kv.Value != nil {
			value, err := v.expand(v.list)(*kv.Value)
			if err != nil {
				return err
			}
			v.put(kv.Key, value)
		} else if value, ok := get(v.meta, kv.Key); ok {
			v.put(kv.Key, value)
		}
	}
	return nil
}

// proxies are the build arguments that every RUN gets without ARG. They are in
// no key: which way a package came does not change it.
func (v *vars) proxies() []string {
	var list []string
	for k, value := range v.build {
		switch strings.ToLower(k) {
		case "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy":
			if _, declared := get(v.list, k); !declared {
				list = append(list, k+"="+value)
			}
		}
	}
	slices.Sort(list)
	return list
}
