package mirrors

import (
	"fmt"

	"github.com/goccy/go-yaml"
)

type gemSettings struct {
	sources []string
	from    string
	secret  bool
}

// readGem reads RubyGems' sources; the user's file counts before the
// machine's.
func (s *Settings) readGem(h Host) error {
	for _, p := range []string{"/etc/gemrc", h.home(".gemrc")} {
		b, err := h.read(p)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			continue
		}
		var c map[string]any
		if err := yaml.Unmarshal(b, &c); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		list, _ := c[":sources"].([]any)
		if list == nil {
			list, _ = c["sources"].([]any)
		}
		if len(list) == 0 {
			continue
		}
		s.gem = gemSettings{from: p}
		for _, v := range list {
			raw := text(v)
			if u, ok := serverURL(raw); ok {
				s.gem.sources = append(s.gem.sources, raw)
				s.gem.secret = s.gem.secret || u.User != nil
				s.add("gem", raw, p)
			}
		}
	}
	return nil
}
