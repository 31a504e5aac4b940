package task

import (
	"path"
	"slices"
	"strings"
)

// volumes reads what a service mounts: volumes of the engine, shared or its
// own, files of the task, which are copied, and memory. A path of this machine
// is refused.
func (r *composeReader) volumes(k key, v any, s *Service) {
	list, ok := v.([]any)
	if !ok {
		if v != nil {
			r.refuse(k, "must be a list, not %s", kindOf(v))
		}
		return
	}
	if len(list) > maxPerList {
		r.refuse(k, "%d entries are more than %d", len(list), maxPerList)
		return
	}
	for i, e := range list {
		at := k.at(i)
		switch e := e.(type) {
		case string:
			r.shortVolume(at, r.text(at, e), s)
		case map[string]any:
			r.longVolume(at, e, s)
		default:
			r.refuse(at, "must be text or a mapping, not %s", kindOf(e))
		}
	}
}

// shortVolume reads "[SOURCE:]TARGET[:OPTIONS]".
func (r *composeReader) shortVolume(k key, text string, s *Service) {
	parts := strings.Split(text, ":")
	switch {
	case len(parts) == 1:
		s.Volumes = append(s.Volumes, ServiceVolume{Target: r.absolute(k, parts[0])})
		return
	case len(parts) > 3:
		r.refuse(k, "%s has too many colons", describe(text))
		return
	}
	ro := false
	if len(parts) == 3 {
		for o := range strings.SplitSeq(parts[2], ",") {
			switch o {
			case "ro":
				ro = true
			case "rw", "z", "Z", "cached", "delegated", "consistent", "nocopy", "":
			default:
				r.refuse(k, "option %s is not supported", describe(o))
			}
		}
	}
	if isPath(parts[0]) {
		r.bind(k, parts[0], parts[1], s)
		return
	}
	r.named(k, parts[0], parts[1], ro, s)
}

func isPath(s string) bool {
	return s != "" && strings.Contains("./~\\", s[:1])
}

func (r *composeReader) longVolume(k key, m map[string]any, s *Service) {
	source, target := r.text(k.with("source"), m["source"]), r.text(k.with("target"), m["target"])
	for _, f := range sortedKeys(m) {
		if !slices.Contains([]string{"type", "source", "target", "read_only", "bind", "volume", "tmpfs", "consistency"}, f) && !strings.HasPrefix(f, "x-") {
			r.refuse(k.with(f), "is not supported")
		}
	}
	if sub, _ := m["volume"].(map[string]any); sub["subpath"] != nil {
		r.refuse(k.with("volume"), "a part of a volume is not supported")
	}
	ro := m["read_only"] == true
	switch kind := r.text(k.with("type"), m["type"]); kind {
	case "bind":
		r.bind(k, source, target, s)
	case "tmpfs":
		s.Tmpfs = append(s.Tmpfs, r.absolute(k, target))
	case "volume":
		if source == "" {
			s.Volumes = append(s.Volumes, ServiceVolume{Target: r.absolute(k, target), ReadOnly: ro})
			return
		}
		r.named(k, source, target, ro, s)
	default:
		r.refuse(k, "type %s is not supported; volume, bind and tmpfs are", describe(kind))
	}
}

// named takes a volume that the file declares.
func (r *composeReader) named(k key, name, target string, ro bool, s *Service) {
	all, _ := r.doc.root["volumes"].(map[string]any)
	if _, ok := all[name]; !ok {
		r.refuse(k, "volume %s is not declared in this file's volumes", describe(name))
		return
	}
	s.Volumes = append(s.Volumes, ServiceVolume{Name: name, Target: r.absolute(k, target), ReadOnly: ro})
}

// bind takes a path: files of the task are copied, the host's log directories
// of older harnesses are plain ones, all else is refused.
func (r *composeReader) bind(k key, source, target string, s *Service) {
	if strings.HasPrefix(source, logsSource) {
		return
	}
	if base := path.Base(path.Clean(source)); base == "docker.sock" || base == "containerd.sock" || base == "podman.sock" {
		r.refuse(k, "whoever holds the engine's socket holds the machine")
		return
	}
	to := r.absolute(k, target)
	rel, ok := r.inside(k, source)
	if !ok || to == "" {
		return
	}
	if r.dir == "." && keyPart(rel) {
		r.refuse(k, "%s holds tests or solution of the task, which no service may see", describe(source))
		return
	}
	if !r.tr.isFile(rel) && !r.tr.isDir(rel) {
		r.refuse(k, "%s is neither a file nor a directory of the task", describe(source))
		return
	}
	s.Files = append(s.Files, ServiceFile{Source: r.t.host(rel), Target: to})
	r.note("service %q: what it mounts of the task is a copy: changes of one service are not seen by another", r.service)
}
