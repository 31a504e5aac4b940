package pid1

import (
	"slices"
	"testing"
)

const passwd = "root:x:0:0:root:/root:/bin/sh\nbad line\napp:x:1000:100:App:/home/app:/bin/sh\n" +
	"numbers:x:nine:1::/:\nhomeless:x:7:7:::\nhigh:x:4294967295:0::/:\n1000:x:55:55:not by number first:/n:\n"
const groups = "root:x:0:\nusers:x:100:\ndata:x:2000:homeless,app\nmore:x:2001:app\nodd:x:x:app\n"

type texts struct{ users, groups string }

func (t texts) passwd() string { return t.users }
func (t texts) group() string  { return t.groups }

func TestLookUpUser(t *testing.T) {
	for _, c := range []struct {
		user, home string
		uid, gid   uint32
		groups     []uint32
	}{
		{"app", "/home/app", 1000, 100, []uint32{2000, 2001}},
		{"1000", "/home/app", 1000, 100, []uint32{2000, 2001}},
		{"app:data", "/home/app", 1000, 2000, nil},
		{"app:5", "/home/app", 1000, 5, nil},
		{"12345", "/", 12345, 0, nil},
		{"12345:12", "/", 12345, 12, nil},
		{"homeless", "/", 7, 7, []uint32{2000}},
		{"root", "/root", 0, 0, nil},
		{":data", "/root", 0, 2000, nil},
	} {
		var who identity
		home, err := who.lookUp(c.user, texts{passwd, groups})
		if err != nil {
			t.Errorf("%s: %v", c.user, err)
			continue
		}
		if n := len(who.groups) - 1; who.uid != c.uid || who.gid != c.gid || home != c.home || !slices.Equal(who.groups[:n], c.groups) {
			t.Errorf("%s: %+v %s", c.user, who, home)
		}
	}
	for _, user := range []string{"nobody", "numbers", "high", "app:nogroup", "4294967295", "-1", "app:-1", "99999999999"} {
		var who identity
		if _, err := who.lookUp(user, texts{passwd, groups}); err == nil {
			t.Errorf("%s: %+v", user, who)
		}
	}
	// An image without those files still has its root.
	var who identity
	if home, err := who.lookUp("root", texts{}); err != nil || who.uid != 0 || home != "/root" {
		t.Error(who, home, err)
	}
}

func FuzzLookUpUser(f *testing.F) {
	f.Add("app:data", passwd, groups)
	f.Add("0", "0:::0", ":")
	f.Fuzz(func(t *testing.T, user, passwd, group string) {
		var who identity
		_, err := who.lookUp(user, texts{passwd, group})
		if err == nil && (who.uid == 1<<32-1 || who.gid == 1<<32-1 || len(who.groups) > maxGroups+2) {
			t.Errorf("%+v", who)
		}
	})
}
