package cgroup

import (
	"path"
	"strings"
	"testing"
)

const hybrid = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /box /mnt/my\040mem rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
`

func TestFind(t *testing.T) {
	own := parseOwn("9:name=systemd:/\n4:memory:/box/inner\n1:cpu,cpuacct:/a:b\n0::/user.slice/x\n")
	want := map[string]string{"memory": "/mnt/my mem/inner", "cpu": "/sys/fs/cgroup/cpu,cpuacct/a:b", "": "/sys/fs/cgroup/unified/user.slice/x"}
	for c, dir := range want {
		found := ""
		for _, m := range parseMounts(hybrid) {
			if (c == "") == m.v2 && (m.v2 || strings.Contains(","+strings.Join(m.ctl, ",")+",", ","+c+",")) {
				found, _ = m.directory(own[c])
			}
		}
		if found != dir {
			t.Errorf("%q: %q, want %q", c, found, dir)
		}
	}
	for _, outside := range []string{"/other", "/boxes", "/../x", "", "rel", "/box/.."} {
		if d, ok := (mount{point: "/m", root: "/box"}).directory(outside); ok {
			t.Errorf("%q is outside of what is mounted, and leads to %s", outside, d)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add(hybrid, "4:memory:/box/inner\n0::/x\n")
	f.Fuzz(func(t *testing.T, info, own string) {
		paths := parseOwn(own)
		for _, m := range parseMounts(info) {
			for _, p := range paths {
				if d, ok := m.directory(p); ok && path.Clean(m.point) != "/" && path.IsAbs(m.point) &&
					d != path.Clean(m.point) && !strings.HasPrefix(d, path.Clean(m.point)+"/") {
					t.Errorf("%q leads out of %q: %q", p, m.point, d)
				}
			}
		}
	})
}
