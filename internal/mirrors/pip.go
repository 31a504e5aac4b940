package mirrors

import (
	"slices"
	"strings"
)

type pipSettings struct {
	index   string
	extra   []string
	links   []string
	trusted []string
	noIndex bool
	timeout string
	retries string
	from    []string
	uv      []string // variables, KEY=value
	uvFrom  []string
}

// readPip reads pip's files from the weakest to the strongest, then its
// variables, as pip does.
func (s *Settings) readPip(h Host) error {
	own, _ := h.env("PIP_CONFIG_FILE")
	files := []string{"/etc/xdg/pip/pip.conf", "/etc/pip.conf", h.home(".pip/pip.conf"), h.home(".config/pip/pip.conf"), own}
	if x, _ := h.env("XDG_CONFIG_HOME"); x != "" {
		files[3] = x + "/pip/pip.conf"
	}
	if own == "/dev/null" {
		files = nil
	}
	for _, p := range files {
		b, err := h.read(p)
		if err != nil {
			return err
		}
		for _, e := range ini(string(b), true) {
			if e.section == "global" || e.section == "install" || e.section == "download" {
				if err := s.pipOption(h, strings.ReplaceAll(e.key, "_", "-"), e.value, at(p, e.line)); err != nil {
					return err
				}
			}
		}
	}
	for _, key := range []string{"index-url", "extra-index-url", "find-links", "trusted-host", "no-index", "timeout", "default-timeout", "retries", "proxy"} {
		name := "PIP_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
		if v, _ := h.env(name); v != "" {
			if err := s.pipOption(h, key, v, name); err != nil {
				return err
			}
		}
	}
	s.add("pip", s.pip.index, strings.Join(s.pip.from, ", "))
	for _, u := range slices.Concat(s.pip.extra, s.pip.links) {
		s.add("pip", u, strings.Join(s.pip.from, ", "))
	}
	for _, name := range []string{"UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INSECURE_HOST",
		"UV_HTTP_TIMEOUT", "UV_PYTHON_INSTALL_MIRROR", "UV_PYPY_INSTALL_MIRROR"} {
		v, _ := h.env(name)
		if v == "" {
			continue
		}
		s.pip.uv, s.pip.uvFrom = append(s.pip.uv, name+"="+v), append(s.pip.uvFrom, name)
		for _, u := range strings.Fields(v) {
			if i := strings.Index(u, "=http"); i > 0 {
				u = u[i+1:] // name=URL
			}
			s.add("pip", u, name)
		}
	}
	return nil
}

func (s *Settings) pipOption(h Host, key, value, from string) error {
	urls := func() (all []string) {
		for _, u := range strings.Fields(value) {
			if _, ok := serverURL(u); !ok {
				s.LeftOut = append(s.LeftOut, from+": "+key+" names a place on this machine")
				continue
			}
			all = append(all, u)
		}
		return all
	}
	switch key {
	case "index-url":
		if u := urls(); len(u) > 0 {
			s.pip.index = u[0]
		}
	case "extra-index-url":
		s.pip.extra = urls()
	case "find-links":
		s.pip.links = urls()
	case "trusted-host":
		s.pip.trusted = strings.Fields(value)
	case "no-index":
		s.pip.noIndex = slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(value))
	case "timeout", "default-timeout":
		s.pip.timeout = value
	case "retries":
		s.pip.retries = value
	case "cert":
		return s.trustFile(h, value, from)
	case "proxy":
		s.through("pip", "", value, from)
		return nil
	default:
		return nil
	}
	if !slices.Contains(s.pip.from, from) {
		s.pip.from = append(s.pip.from, from)
	}
	return nil
}

// conf is a pip.conf with what matters inside; nil if nothing does.
func (p pipSettings) conf() []byte {
	var b strings.Builder
	put := func(key string, values ...string) {
		if v := strings.Join(values, "\n    "); v != "" {
			b.WriteString(key + " = " + strings.ReplaceAll(v, "%", "%%") + "\n")
		}
	}
	put("index-url", p.index)
	put("extra-index-url", p.extra...)
	put("find-links", p.links...)
	put("trusted-host", p.trusted...)
	put("timeout", p.timeout)
	put("retries", p.retries)
	if p.noIndex {
		put("no-index", "true")
	}
	if b.Len() == 0 {
		return nil
	}
	return []byte("[global]\n" + b.String())
}
