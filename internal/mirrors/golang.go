package mirrors

import (
	"slices"
	"strings"
)

type goSettings struct{ vars []goVar }

type goVar struct{ name, value, from string }

func (g goSettings) value(name string) string {
	for _, v := range g.vars {
		if v.name == name {
			return v.value
		}
	}
	return ""
}

// goVariables say where modules come from. GOFLAGS is not among them: it
// changes what a build makes, and a layer must not depend on this machine.
func goVariables() []string {
	return []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE", "GOVCS"}
}

// readGo reads the variables, and below them what "go env -w" wrote.
func (s *Settings) readGo(h Host) error {
	file, _ := h.env("GOENV")
	if file == "" {
		file = h.home(".config/go/env")
		if x, _ := h.env("XDG_CONFIG_HOME"); x != "" {
			file = x + "/go/env"
		}
	}
	written := map[string]goVar{}
	if file != "off" {
		b, err := h.read(file)
		if err != nil {
			return err
		}
		for _, e := range ini(string(b), false) {
			written[e.key] = goVar{e.key, e.value, at(file, e.line)}
		}
	}
	for _, name := range goVariables() {
		v := written[name]
		if got, _ := h.env(name); got != "" {
			v = goVar{name, got, name}
		}
		if v.value != "" {
			s.gocmd.vars = append(s.gocmd.vars, v)
		}
	}
	for _, v := range s.gocmd.vars {
		for _, part := range strings.FieldsFunc(v.value, func(r rune) bool { return r == ',' || r == '|' || r == ' ' }) {
			switch v.name {
			case "GOPROXY", "GOSUMDB":
				s.add("go", part, v.from)
				if v.name == "GOSUMDB" && slices.Contains([]string{"sum.golang.org", "sum.golang.google.cn"}, part) {
					s.add("go", "https://"+part, v.from)
				}
			case "GOPRIVATE", "GONOPROXY":
				if host, _, _ := strings.Cut(part, "/"); strings.Contains(host, ".") && !strings.ContainsAny(host, "*?[") {
					s.add("go", "https://"+host, v.from)
				}
			}
		}
	}
	return nil
}
