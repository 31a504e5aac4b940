package task

import (
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// read reads one service.
func (r *composeReader) read(k key, m map[string]any, s *Service) {
	for _, name := range sortedKeys(m) {
		at, v := k.with(name), m[name]
		switch name {
		case "image":
			s.Image = r.text(at, v)
		case "build":
			s.Build = r.build(at, v)
		case "entrypoint":
			s.Entrypoint = r.words(at, v)
		case "command":
			s.Command = r.words(at, v)
		case "environment", "env_file": // together, below
		case "working_dir":
			s.Workdir = r.absolute(at, r.text(at, v))
		case "user":
			s.User = r.text(at, v)
		case "hostname":
			s.Hostname = r.hostname(at, r.text(at, v))
		case "networks":
			s.Aliases = append(s.Aliases, r.networks(at, v)...)
		case "links":
			r.links(at, v, s)
		case "extra_hosts":
			s.Hosts = r.hosts(at, v)
		case "depends_on":
			s.After = r.after(at, v)
		case "healthcheck":
			s.Health = r.health(at, v)
		case "volumes":
			r.volumes(at, v, s)
		case "tmpfs":
			for _, t := range r.strings(at, v) {
				p, _, _ := strings.Cut(t, ":")
				s.Tmpfs = append(s.Tmpfs, r.absolute(at, p))
			}
		case "restart":
			s.Restart = r.restart(at, r.text(at, v))
		case "mem_limit":
			s.MemBytes = r.bytes(at, v)
		case "shm_size":
			s.ShmBytes = r.bytes(at, v)
		case "cpus":
			s.CPUs = r.number(at, v)
		case "pids_limit":
			s.Pids = int64(r.number(at, v))
		case "deploy":
			r.deploy(at, v, s)
		case "sysctls":
			s.Sysctls = r.sysctls(at, v)
		default:
			r.other(at, name, v)
		}
	}
	s.Env = r.environment(k, m)
}

// other decides about a key that is not read.
func (r *composeReader) other(k key, name string, v any) {
	off := v == nil || v == false || v == ""
	switch v := v.(type) {
	case []any:
		off = len(v) == 0
	case map[string]any:
		off = len(v) == 0
	}
	switch {
	case composeIgnored(name) || strings.HasPrefix(name, "x-"):
	case off: // it asks for nothing
	case composeNoted(name) != "":
		r.note("service %q: %s: %s", r.service, name, composeNoted(name))
	case name == "cap_add":
		for i, c := range asList(v) {
			if !slices.Contains(usualCapabilities, strings.TrimPrefix(strings.ToUpper(r.plain(c)), "CAP_")) {
				r.refuse(k.at(i), "capability %s is none of those that a service has", clip(r.plain(c), 40))
			}
		}
	case name == "security_opt" && !slices.ContainsFunc(asList(v), func(o any) bool {
		return !slices.Contains([]string{"no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"}, r.plain(o))
	}): // as it is anyway
	case (name == "ipc" && (v == "private" || v == "shareable")), name == "cgroup" && v == "private", name == "scale" && r.plain(v) == "1":
	case name == "network_mode" && r.plain(v) == "none":
		r.refuse(k, "a service without the network cannot be reached; leave it out")
	default:
		r.refuse(k, "%s", composeRefused(name))
	}
}

// usualCapabilities are Docker's own but NET_RAW, which no service has.
var usualCapabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"NET_BIND_SERVICE", "SYS_CHROOT", "MKNOD", "AUDIT_WRITE", "SETFCAP"}

// environment merges env_file and environment; the latter wins.
func (r *composeReader) environment(k key, m map[string]any) []string {
	all := map[string]string{}
	files := m["env_file"]
	if _, ok := files.([]any); !ok && files != nil {
		files = []any{files}
	}
	for i, f := range asList(files) {
		at := k.with("env_file").at(i)
		needed := true
		if fm, ok := f.(map[string]any); ok {
			needed = fm["required"] != false
			f = fm["path"]
		}
		rel, ok := r.inside(at, r.text(at, f))
		if !ok {
			continue
		}
		text, err := r.tr.readText(rel, maxConfigFile)
		if isMissing(err) && !needed {
			continue
		}
		if err != nil {
			r.refuse(at, "%v", err)
			continue
		}
		for _, kv := range envFile(text) {
			name, val, _ := strings.Cut(kv, "=")
			all[name] = val
		}
	}
	for name, val := range r.mapping(k.with("environment"), m["environment"]) {
		all[name] = val
	}
	var out []string
	for _, name := range sortedKeys(all) {
		out = append(out, name+"="+all[name])
	}
	return out
}

// inside gives a path of the Compose file as one of the task, if it is in the
// directory that the agent's world is made from and no part of the key.
func (r *composeReader) inside(k key, p string) (string, bool) {
	if p == "" {
		r.refuse(k, "is empty")
		return "", false
	}
	rel := joinRel(r.dir, path.Clean(filepath.ToSlash(p)))
	if path.IsAbs(p) || strings.HasPrefix(p, "~") || r.dir != "." && rel != r.dir && !strings.HasPrefix(rel, r.dir+"/") || rel == ".." || strings.HasPrefix(rel, "../") {
		r.refuse(k, "%s is outside of the task's %s; only what lies in there can be given to a service", describe(p), composePlace(r.dir))
		return "", false
	}
	real, err := r.tr.inside(rel)
	if err != nil {
		r.refuse(k, "%s: %v", describe(p), err)
		return "", false
	}
	if r.dir != "." && real != r.dir && !strings.HasPrefix(real, r.dir+"/") {
		r.refuse(k, "%s leads to %s, outside of %s", describe(p), quotePath(real), composePlace(r.dir))
		return "", false
	}
	return real, true
}

func composePlace(dir string) string {
	if dir == "." {
		return "directory"
	}
	return dir + "/"
}

// keyPart reports whether a path of an old task holds tests or solution.
func keyPart(rel string) bool {
	first, _, _ := strings.Cut(rel, "/")
	return rel == "." || first == "tests" || first == "task.yaml" || first == legacyScript || strings.HasPrefix(first, "solution")
}

func joinRel(dir, p string) string { return path.Join(dir, p) }

func (r *composeReader) build(k key, v any) *ServiceBuild {
	b := &ServiceBuild{}
	dir := "."
	switch v := v.(type) {
	case string:
		dir = r.text(k, v)
	case map[string]any:
		for _, name := range sortedKeys(v) {
			at := k.with(name)
			switch name {
			case "context":
				dir = r.text(at, v[name])
			case "dockerfile":
				b.Dockerfile = path.Clean(r.text(at, v[name]))
				if path.IsAbs(b.Dockerfile) || strings.HasPrefix(b.Dockerfile, "..") {
					r.refuse(at, "must lie in the build's context")
				}
			case "target":
				b.Target = r.text(at, v[name])
			case "args":
				b.Args = r.mapping(at, v[name])
			case "tags", "labels", "pull", "no_cache", "cache_from", "cache_to", "platforms", "provenance", "sbom", "shm_size":
			default:
				if !strings.HasPrefix(name, "x-") {
					r.refuse(at, "is not supported in a build")
				}
			}
		}
	default:
		r.refuse(k, "must be a directory or a mapping, not %s", kindOf(v))
		return nil
	}
	if strings.Contains(dir, "://") || strings.HasPrefix(dir, "git@") {
		r.refuse(k, "%s: only directories of the task are built", describe(dir))
		return nil
	}
	rel, ok := r.inside(k, dir)
	if !ok {
		return nil
	}
	if !r.tr.isDir(rel) {
		r.refuse(k, "%s is no directory of the task", describe(dir))
		return nil
	}
	b.Dir = r.t.host(rel)
	return b
}

func (r *composeReader) absolute(k key, p string) string {
	if !path.IsAbs(p) {
		r.refuse(k, "%s must be an absolute path", describe(p))
		return ""
	}
	p = path.Clean(p)
	for _, no := range []string{"/proc", "/sys", "/dev", "/.assay"} {
		if p == no || strings.HasPrefix(p, no+"/") && p != "/dev/shm" {
			r.refuse(k, "nothing is put over %s", no)
		}
	}
	return p
}

func (r *composeReader) hostname(k key, h string) string {
	if !composeName(h) {
		r.refuse(k, "%s is no name of a host", describe(h))
		return ""
	}
	return h
}

func (r *composeReader) networks(k key, v any) (aliases []string) {
	m, ok := v.(map[string]any)
	if !ok {
		r.strings(k, v)
		return nil
	}
	for _, n := range sortedKeys(m) {
		at := k.with(n)
		opts, ok := m[n].(map[string]any)
		if !ok && m[n] != nil {
			r.refuse(at, "must be a mapping, not %s", kindOf(m[n]))
		}
		for _, o := range sortedKeys(opts) {
			switch o {
			case "aliases":
				for _, a := range r.strings(at.with(o), opts[o]) {
					aliases = append(aliases, r.hostname(at.with(o), a))
				}
			case "priority", "gw_priority", "interface_name":
			case "ipv4_address", "ipv6_address", "link_local_ips":
				r.note("service %q: its address is the engine's choice; it is reached by name", r.service)
			default:
				r.refuse(at.with(o), "is not supported")
			}
		}
	}
	return aliases
}

// links make other names of a service, and an order.
func (r *composeReader) links(k key, v any, s *Service) {
	for i, l := range r.strings(k, v) {
		name, alias, ok := strings.Cut(l, ":")
		if ok && alias != name {
			r.refuse(k.at(i), "another name for a service is given where it joins the network: networks.default.aliases of %q", name)
			continue
		}
		s.After = append(s.After, After{Service: name, Condition: Started})
	}
}

func (r *composeReader) hosts(k key, v any) (out []string) {
	add := func(at key, name, addr string) {
		a, err := netip.ParseAddr(strings.Trim(addr, "[]"))
		if err != nil {
			r.refuse(at, "%s is no address; the machine itself is out of reach", describe(addr))
			return
		}
		out = append(out, r.hostname(at, name)+":"+a.String())
	}
	if m, ok := v.(map[string]any); ok {
		for _, name := range sortedKeys(m) {
			add(k.with(name), name, r.text(k.with(name), m[name]))
		}
		return out
	}
	for i, h := range r.strings(k, v) {
		name, addr, ok := strings.Cut(h, "=")
		if !ok {
			name, addr, _ = strings.Cut(h, ":")
		}
		add(k.at(i), name, addr)
	}
	return out
}

func (r *composeReader) after(k key, v any) (out []After) {
	m, ok := v.(map[string]any)
	if !ok {
		for _, n := range r.strings(k, v) {
			out = append(out, After{n, Started})
		}
		return out
	}
	for _, n := range sortedKeys(m) {
		a := After{n, Started}
		at := k.with(n)
		opts, ok := m[n].(map[string]any)
		if !ok {
			r.refuse(at, "must be a mapping, not %s", kindOf(m[n]))
			continue
		}
		if c, ok := opts["condition"]; ok {
			a.Condition = Condition(r.text(at.with("condition"), c))
		}
		if !slices.Contains([]Condition{Started, Healthy, Completed}, a.Condition) {
			r.refuse(at.with("condition"), "%s is none of %s, %s, %s", describe(string(a.Condition)), Started, Healthy, Completed)
		}
		if opts["required"] == false {
			r.refuse(at.with("required"), "a service is there or it is not")
		}
		out = append(out, a)
	}
	return out
}

func (r *composeReader) health(k key, v any) *ServiceHealth {
	m, ok := v.(map[string]any)
	if !ok {
		r.refuse(k, "must be a mapping, not %s", kindOf(v))
		return nil
	}
	h := &ServiceHealth{}
	for _, name := range sortedKeys(m) {
		at := k.with(name)
		switch name {
		case "test":
			if _, list := m[name].([]any); !list {
				h.Test = []string{"CMD-SHELL", r.text(at, m[name])}
				continue
			}
			h.Test = r.strings(at, m[name])
			if len(h.Test) == 0 || !slices.Contains([]string{"NONE", "CMD", "CMD-SHELL"}, h.Test[0]) || h.Test[0] == "CMD-SHELL" && len(h.Test) != 2 || h.Test[0] == "CMD" && len(h.Test) < 2 {
				r.refuse(at, `must begin with "CMD" and a program, "CMD-SHELL" and one line, or be "NONE"`)
			}
		case "interval":
			h.Interval = r.duration(at, m[name])
		case "timeout":
			h.Timeout = r.duration(at, m[name])
		case "start_period":
			h.StartPeriod = r.duration(at, m[name])
		case "start_interval":
			h.StartInterval = r.duration(at, m[name])
		case "retries":
			h.Retries = int(min(max(r.number(at, m[name]), 0), 10000))
		case "disable":
			if m[name] == true {
				h.Test = []string{"NONE"}
			}
		default:
			r.refuse(at, "is no field of a health check")
		}
	}
	if len(h.Test) > 0 && h.Test[0] == "NONE" || m["disable"] == true {
		return &ServiceHealth{}
	}
	if h.Test == nil {
		r.refuse(k, "has no test")
	}
	return h
}

func (r *composeReader) restart(k key, s string) string {
	word, _, _ := strings.Cut(s, ":")
	switch word {
	case "", "no", "false":
		return ""
	case "always", "unless-stopped":
		return "always"
	case "on-failure":
		return word
	}
	r.refuse(k, "%s is no policy", describe(s))
	return ""
}

func (r *composeReader) deploy(k key, v any, s *Service) {
	m, ok := v.(map[string]any)
	if !ok {
		r.refuse(k, "must be a mapping, not %s", kindOf(v))
		return
	}
	for _, name := range sortedKeys(m) {
		switch name {
		case "resources":
			res, _ := m[name].(map[string]any)
			for _, part := range sortedKeys(res) {
				lim, _ := res[part].(map[string]any)
				at := k.with(name).with(part)
				for _, f := range sortedKeys(lim) {
					switch {
					case f == "devices":
						r.refuse(at.with(f), "%s", composeRefused("devices"))
					case part != "limits": // what is reserved is not taken from others
					case f == "memory":
						s.MemBytes = r.bytes(at.with(f), lim[f])
					case f == "cpus":
						s.CPUs = r.number(at.with(f), lim[f])
					case f == "pids":
						s.Pids = int64(r.number(at.with(f), lim[f]))
					}
				}
			}
		case "replicas":
			if r.number(k.with(name), m[name]) != 1 {
				r.refuse(k.with(name), "%s", composeRefused("scale"))
			}
		case "restart_policy":
			p, _ := m[name].(map[string]any)
			switch c := r.plain(p["condition"]); c {
			case "", "any":
				s.Restart = "always"
			case "on-failure":
				s.Restart = c
			}
		case "labels", "mode", "placement", "update_config", "rollback_config", "endpoint_mode":
		default:
			r.refuse(k.with(name), "is not supported")
		}
	}
}

// sysctls of a network namespace are the container's own.
func (r *composeReader) sysctls(k key, v any) map[string]string {
	m := r.mapping(k, v)
	for _, name := range sortedKeys(m) {
		switch {
		case !strings.HasPrefix(name, "net."):
			r.refuse(k, "%s is a setting of the machine; only net.* are a container's own", describe(name))
		case strings.HasPrefix(name, "net.ipv6."):
			r.refuse(k, "%s: the trial's network has no IPv6", describe(name))
		}
	}
	return m
}
