package dockerfile

import (
	"runtime"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// vars are the variables of a Dockerfile in order of their declaration,
// "KEY=value". ENV wins over ARG of the same name, whichever comes later, as
// https://docs.docker.com/reference/dockerfile/#using-arg-variables says.
type vars struct {
	lex   *shell.Lex
	build map[string]string // given from outside
	meta  []string          // of ARG before FROM, and what the platform sets
	args  []string          // of ARG after FROM
	env   []string          // of the image and ENV
}

func newVars(escape rune, build map[string]string) *vars {
	platform := "linux/" + runtime.GOARCH
	return &vars{lex: shell.NewLex(escape), build: build, meta: []string{
		"TARGETPLATFORM=" + platform, "TARGETOS=linux", "TARGETARCH=" + runtime.GOARCH, "TARGETVARIANT=",
		"BUILDPLATFORM=" + platform, "BUILDOS=linux", "BUILDARCH=" + runtime.GOARCH, "BUILDVARIANT=",
	}}
}

// set adds or replaces a variable.
func set(list []string, key, value string) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(kv string) bool {
		k, _, _ := strings.Cut(kv, "=")
		return k == key
	})
	return append(list, key+"="+value)
}

func get(list []string, key string) (string, bool) {
	for _, kv := range slices.Backward(list) {
		if k, v, _ := strings.Cut(kv, "="); k == key {
			return v, true
		}
	}
	return "", false
}

// inside returns the variables that instructions after FROM see, ENV last.
func (v *vars) inside() []string { return slices.Concat(v.args, v.env) }

func (v *vars) expand(env []string) instructions.SingleWordExpander {
	return func(word string) (string, error) {
		s, _, err := v.lex.ProcessWord(word, shell.EnvsFromSlice(env))
		return s, err
	}
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
			v.args = set(v.args, kv.Key, given)
		} else if kv.Value != nil {
			value, err := v.expand(v.inside())(*kv.Value)
			if err != nil {
				return err
			}
			v.args = set(v.args, kv.Key, value)
		} else if value, ok := get(v.meta, kv.Key); ok {
			v.args = set(v.args, kv.Key, value)
		}
	}
	return nil
}
