package dockerfile

import (
	"assay/internal/image"
	"assay/internal/sandbox"
)

// hostsFile is what BuildKit shows a RUN as /etc/hosts.
const hostsFile = "127.0.0.1\tlocalhost buildkitsandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n"

// resolvConf leads to the sandbox's own resolver, whatever server the image
// names.
const resolvConf = "nameserver 127.0.0.1\n"

// names are the files that tell a RUN of hosts. As with BuildKit they are not
// the image's, and no command can write into them.
func (x *execution) names(m *mounts) ([]sandbox.Mount, error) {
	if x.b.o.Backend.Capabilities().Name != "ns" { // engines have such files of their own
		return nil, nil
	}
	v, err := x.b.o.Store.View(x.stack)
	if err != nil {
		return nil, err
	}
	p, err := x.private(m)
	if err != nil {
		return nil, err
	}
	var all []sandbox.Mount
	for _, f := range []struct{ name, text string }{{"hosts", hostsFile}, {"resolv.conf", resolvConf}} {
		at := "etc/" + f.name
		if _, err := v.Lstat(at); err == nil {
			if at, err = v.Resolve(at); err != nil {
				continue // a link to nowhere: without such a file the same holds
			}
		}
		if err := p.Write(f.name, 0o644, []byte(f.text)); err != nil {
			return nil, err
		}
		all = append(all, sandbox.Mount{Host: p.Path(f.name), Target: image.Path("/" + at), ReadOnly: true})
	}
	return all, nil
}
