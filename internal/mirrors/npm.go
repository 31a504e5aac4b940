package mirrors

import (
	"path"
	"regexp"
	"strings"
)

type npmSettings struct {
	registry string
	lines    []string // of an npmrc
	from     []string
	secret   bool
}

// readNpm reads npm's files from the weakest to the strongest, then its
// variables.
func (s *Settings) readNpm(h Host) error {
	files := []string{"/usr/etc/npmrc", "/usr/local/etc/npmrc", "/etc/npmrc"}
	if p, _ := h.env("npm_config_globalconfig", "NPM_CONFIG_GLOBALCONFIG"); p != "" {
		files = []string{p}
	}
	user, _ := h.env("npm_config_userconfig", "NPM_CONFIG_USERCONFIG")
	if user == "" {
		user = h.home(".npmrc")
	}
	for _, p := range append(files, user) {
		b, err := h.read(p)
		if err != nil {
			return err
		}
		for _, e := range ini(string(b), false) {
			if e.section == "" {
				if err := s.npmOption(h, e.key, expand(h, e.value), at(p, e.line)); err != nil {
					return err
				}
			}
		}
	}
	for _, key := range []string{"registry", "cafile", "strict_ssl"} {
		if v, name := h.env("npm_config_"+key, "NPM_CONFIG_"+strings.ToUpper(key)); v != "" {
			if err := s.npmOption(h, strings.ReplaceAll(key, "_", "-"), v, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Settings) npmOption(h Host, key, value, from string) error {
	value = strings.Trim(value, `"'`)
	secret := false
	switch {
	case key == "registry":
		s.npm.registry = value
		s.add("npm", value, from)
	case strings.HasPrefix(key, "@") && strings.HasSuffix(key, ":registry"):
		s.add("npm", value, from)
	case strings.HasPrefix(key, "//"):
		last := path.Ext(strings.ReplaceAll(key, ":", "."))
		secret = last != ".always-auth" && last != ".username" && last != ".email"
		if last == ".certfile" || last == ".keyfile" {
			s.LeftOut = append(s.LeftOut, from+": a client certificate")
			return nil
		}
	case key == "_auth", key == "_authToken", key == "_password":
		secret = true
	case key == "strict-ssl", key == "always-auth", key == "fetch-retries", key == "fetch-timeout":
	case key == "cafile":
		return s.trustFile(h, value, from)
	case key == "proxy" && value != "null":
		s.through("npm", "http", value, from)
		return nil
	case key == "https-proxy" && value != "null":
		s.through("npm", "https", value, from)
		return nil
	default:
		return nil // this machine's own
	}
	s.npm.secret = s.npm.secret || secret
	s.npm.lines = append(s.npm.lines, key+"="+value)
	s.npm.from = append(s.npm.from, from)
	return nil
}

// expand puts variables in, as npm and Maven do: ${NAME}, ${env.NAME}.
func expand(h Host, v string) string {
	return regexp.MustCompile(`\$\{(?:env\.)?[A-Za-z_][A-Za-z0-9_]*\}`).ReplaceAllStringFunc(v, func(m string) string {
		if got, _ := h.env(strings.TrimPrefix(m[2:len(m)-1], "env.")); got != "" {
			return got
		}
		return m
	})
}
