package pid1

import "syscall"

// identity is who a program runs as.
type identity struct {
	uid, gid uint32
	groups   []uint32 // and one more, so that there is an address to take
}

// startAs runs a program as a user of the tree's own files: see StartAs. The
// files are somebody else's and may say anything; the ids that they give are
// the sandbox's.
func (s *server) startAs(m Message, fds []int) error {
	if len(m.Strs) < 1 {
		return s.refuse(m.ID, StageInit, errMessage)
	}
	who, home, err := lookUpUser(m.Strs[0], readRecords)
	if err != nil {
		return s.refuse(m.ID, StageUser, err)
	}
	m.Strs = m.Strs[1:]
	if !hasHome(m) {
		m.Strs = append(m.Strs, "HOME="+home)
	}
	// Streams can be opened by name, as /dev/stdout; what refuses it works otherwise.
	for _, fd := range fds {
		_ = syscall.Fchown(fd, int(who.uid), int(who.gid))
	}
	s.who = who
	defer func() { s.who = nil }()
	return s.start(m, fds)
}

// hasHome looks through the environment of a start.
func hasHome(m Message) bool {
	if len(m.Nums) < 5 || m.Nums[3] < 0 || m.Nums[4] < 0 || m.Nums[3]+m.Nums[4]+1 > int64(len(m.Strs)) {
		return true // start will refuse it
	}
	for _, e := range m.Strs[m.Nums[3]+m.Nums[4]+1:] {
		if k, _ := cut(e); k == "HOME" {
			return true
		}
	}
	return false
}

// lookUpUser finds the ids of NAME or NUMBER, with a :GROUP or not, as
// container engines do: a number need not be in the files.
func lookUpUser(user string, read func(file string) string) (*identity, string, error) {
	name, group, hasGroup := user, "", false
	for i := range len(user) {
		if user[i] == ':' {
			name, group, hasGroup = user[:i], user[i+1:], true
			break
		}
	}
	if name == "" {
		name = "0"
	}
	who, home := &identity{}, "/"
	found := false
	eachRecord(read("/etc/passwd"), func(f []string) bool {
		if len(f) >= 6 && (f[0] == name || f[2] == name) {
			uid, ok := parseID(f[2])
			gid, ok2 := parseID(f[3])
			if ok && ok2 {
				who.uid, who.gid, name, found = uid, gid, f[0], true
				if f[5] != "" {
					home = f[5]
				}
			}
		}
		return !found
	})
	if !found {
		uid, ok := parseID(name)
		if !ok && name != "root" {
			return nil, "", &failure{"find user " + name + " in /etc/passwd", syscall.ENOENT}
		}
		if who.uid = uid; uid == 0 {
			home = "/root"
		}
	}
	if hasGroup {
		gid, ok := lookUpGroup(group, read)
		if !ok {
			return nil, "", &failure{"find group " + group + " in /etc/group", syscall.ENOENT}
		}
		who.gid = gid
	} else {
		who.groups = groupsOf(name, read)
	}
	who.groups = append(who.groups, 0)
	return who, home, nil
}

func lookUpGroup(group string, read func(file string) string) (gid uint32, ok bool) {
	eachRecord(read("/etc/group"), func(f []string) bool {
		if len(f) >= 3 && f[0] == group {
			gid, ok = parseID(f[2])
		}
		return !ok
	})
	if !ok {
		gid, ok = parseID(group)
	}
	return gid, ok
}

// maxGroups is what a user may be a member of; the kernel takes 65,536.
const maxGroups = 1024

// groupsOf lists the groups that name a user as a member.
func groupsOf(name string, read func(file string) string) (all []uint32) {
	eachRecord(read("/etc/group"), func(f []string) bool {
		if len(f) < 4 {
			return true
		}
		for _, member := range fields(f[3], ',') {
			if member == name {
				if gid, ok := parseID(f[2]); ok {
					all = append(all, gid)
				}
				break
			}
		}
		return len(all) < maxGroups
	})
	return all
}

// maxRecords is how much of such a file is read, in bytes.
const maxRecords = 1 << 20

// readRecords reads a file of the tree. One that is missing, or is none, is
// empty.
func readRecords(file string) string {
	fd, e := openat2(atCWD, file, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if e != 0 {
		return ""
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return ""
	}
	text := make([]byte, min(st.Size, maxRecords))
	n := 0
	for n < len(text) {
		m, err := syscall.Read(fd, text[n:])
		if err == syscall.EINTR {
			continue
		}
		if m <= 0 || err != nil {
			break
		}
		n += m
	}
	return string(text[:n])
}

// eachRecord goes through lines of fields between colons.
func eachRecord(text string, f func([]string) bool) {
	for len(text) > 0 {
		line := text
		text = ""
		for i := range len(line) {
			if line[i] == '\n' {
				line, text = line[:i], line[i+1:]
				break
			}
		}
		if !f(fields(line, ':')) {
			return
		}
	}
}

// fields splits at every separator.
func fields(s string, sep byte) (out []string) {
	from := 0
	for i := range len(s) {
		if s[i] == sep {
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

// parseID reads a user or group id; the last number means "none".
func parseID(s string) (uint32, bool) {
	if s == "" || len(s) > 10 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return uint32(n), n < 1<<32-1
}
