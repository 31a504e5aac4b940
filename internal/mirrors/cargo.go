package mirrors

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

type cargoSettings struct {
	replaced bool
	config   map[string]any // what matters inside
	from     []string
	secret   bool
}

// readCargo reads the user's configuration and credentials.
func (s *Settings) readCargo(h Host) error {
	dir, _ := h.env("CARGO_HOME")
	if dir == "" {
		if dir = h.home(".cargo"); dir == "" {
			return nil
		}
	}
	kept := map[string]any{}
	for _, name := range []string{"config.toml", "config", "credentials.toml", "credentials"} {
		p := dir + "/" + name
		b, err := h.read(p)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			continue
		}
		var c map[string]any
		if err := toml.Unmarshal(b, &c); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if err := s.cargoConfig(h, c, kept, p); err != nil {
			return err
		}
	}
	s.cargo.config = kept
	return nil
}

func (s *Settings) cargoConfig(h Host, c, kept map[string]any, from string) error {
	used := false
	for _, name := range slices.Sorted(maps.Keys(table(c, "source"))) {
		src, _ := table(c, "source")[name].(map[string]any)
		if src["directory"] != nil || src["local-registry"] != nil {
			s.LeftOut = append(s.LeftOut, fmt.Sprintf("%s: source %q is a directory of this machine", from, name))
			continue
		}
		if name == "crates-io" && src["replace-with"] != nil {
			s.cargo.replaced = true
		}
		s.add("cargo", text(src["registry"]), from)
		sub(kept, "source")[name], used = src, true
	}
	for _, name := range slices.Sorted(maps.Keys(table(c, "registries"))) {
		reg, _ := table(c, "registries")[name].(map[string]any)
		s.add("cargo", text(reg["index"]), from)
		if old, ok := sub(kept, "registries")[name].(map[string]any); ok {
			maps.Copy(old, reg) // the token of credentials.toml
			reg = old
		}
		s.cargo.secret = s.cargo.secret || reg["token"] != nil
		sub(kept, "registries")[name], used = reg, true
	}
	for _, t := range []struct {
		table string
		keys  []string
	}{
		{"registry", []string{"default", "token"}},
		{"http", []string{"timeout", "check-revoke", "multiplexing", "ssl-version"}},
		{"net", []string{"retry"}},
	} {
		for k, v := range table(c, t.table) {
			if slices.Contains(t.keys, k) {
				sub(kept, t.table)[k], used = v, true
				s.cargo.secret = s.cargo.secret || k == "token"
			}
		}
	}
	if used {
		s.cargo.from = append(s.cargo.from, from)
	}
	web := table(c, "http")
	if p := text(web["proxy"]); p != "" {
		s.through("cargo", "", p, from)
	}
	return s.trustFile(h, text(web["cainfo"]), from)
}

func table(c map[string]any, name string) map[string]any {
	t, _ := c[name].(map[string]any)
	return t
}

// sub is a table of c, made if it is missing.
func sub(c map[string]any, name string) map[string]any {
	t, ok := c[name].(map[string]any)
	if !ok {
		t = map[string]any{}
		c[name] = t
	}
	return t
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
