package pid1

import (
	"syscall"
	"unsafe"
)

// identity is who a program runs as.
type identity struct {
	known    bool
	uid, gid uint32
	groups   []uint32 // and one more, so that there is an address to take
	home     []byte   // of the environment, as HOME=…
}

// startAs runs a program as a user of the tree's own files: see StartAs. The
// files are somebody else's and may say anything; the ids that they give are
// the sandbox's.
func (s *server) startAs(m *Message, fds []int) error {
	if len(m.Strs) < 1 {
		return s.refuse(m.ID, StageInit, errMessage)
	}
	home, err := s.who.lookUp(m.Strs[0], s)
	if err != nil {
		return s.refuse(m.ID, StageUser, err)
	}
	copy(m.Strs, m.Strs[1:])
	m.Strs = m.Strs[:len(m.Strs)-1]
	if !hasHome(m) {
		s.who.home = append(append(append(s.who.home[:0], "HOME="...), home...), 0)
		m.Strs = append(m.Strs, unsafe.String(&s.who.home[0], len(s.who.home)-1))
	}
	// Streams can be opened by name, as /dev/stdout; what refuses it works otherwise.
	for _, fd := range fds {
		_ = syscall.Fchown(fd, int(s.who.uid), int(s.who.gid))
	}
	s.who.known = true
	err = s.start(m, fds)
	s.who.known = false
	return err
}

// hasHome looks through the environment of a start.
func hasHome(m *Message) bool {
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

// books are the files that know users and groups.
type books interface {
	passwd() string
	group() string
}

// lookUp finds the ids of NAME or NUMBER, with a :GROUP or not, as container
// engines do: a number need not be in the files. It returns the user's home.
func (who *identity) lookUp(user string, in books) (home string, err error) {
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
	*who = identity{groups: who.groups[:0], home: who.home}
	home = "/"
	found := false
	for text := in.passwd(); text != "" && !found; {
		var f record
		text = f.next(text)
		if f.n < 6 || (f.at[0] != name && f.at[2] != name) {
			continue
		}
		uid, ok := parseID(f.at[2])
		gid, ok2 := parseID(f.at[3])
		if ok && ok2 {
			who.uid, who.gid, name, found = uid, gid, f.at[0], true
			if f.at[5] != "" {
				home = f.at[5]
			}
		}
	}
	if !found {
		uid, ok := parseID(name)
		if !ok && name != "root" {
			return "", &failure{"find user " + name + " in /etc/passwd", syscall.ENOENT}
		}
		if who.uid = uid; uid == 0 {
			home = "/root"
		}
	}
	if hasGroup {
		gid, ok := lookUpGroup(group, in)
		if !ok {
			return "", &failure{"find group " + group + " in /etc/group", syscall.ENOENT}
		}
		who.gid = gid
	} else {
		who.join(name, in)
	}
	who.groups = append(who.groups, 0)
	return home, nil
}

func lookUpGroup(group string, in books) (gid uint32, ok bool) {
	for text := in.group(); text != "" && !ok; {
		var f record
		text = f.next(text)
		if f.n >= 3 && f.at[0] == group {
			gid, ok = parseID(f.at[2])
		}
	}
	if !ok {
		gid, ok = parseID(group)
	}
	return gid, ok
}

// maxGroups is what a user may be a member of; the kernel takes 65,536.
const maxGroups = 1024

// join adds the groups that name a user as a member.
func (who *identity) join(name string, in books) {
	for text := in.group(); text != "" && len(who.groups) < maxGroups; {
		var f record
		text = f.next(text)
		if f.n < 4 || !lists(f.at[3], name) {
			continue
		}
		if gid, ok := parseID(f.at[2]); ok {
			who.groups = append(who.groups, gid)
		}
	}
}

// lists reports whether a name is among those between commas.
func lists(names, name string) bool {
	from := 0
	for i := 0; i <= len(names); i++ {
		if i == len(names) || names[i] == ',' {
			if names[from:i] == name {
				return true
			}
			from = i + 1
		}
	}
	return false
}

// maxRecords is how much of such a file is read, in bytes.
const maxRecords = 1 << 20

func (s *server) passwd() string { return readRecords("/etc/passwd", &s.users) }
func (s *server) group() string  { return readRecords("/etc/group", &s.groups) }

// readRecords reads a file of the tree into a buffer that grows with it. One
// that is missing, or is none, is empty.
func readRecords(file string, buf *[]byte) string {
	fd, e := openat2(atCWD, file, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if e != 0 {
		return ""
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return ""
	}
	if size := int(min(st.Size, maxRecords)); cap(*buf) < size {
		*buf = make([]byte, min(2*size, maxRecords))
	}
	text := (*buf)[:min(int(st.Size), maxRecords, cap(*buf))]
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
	return unsafe.String(unsafe.SliceData(text), n)
}

// record is a line of fields between colons, of which the first are kept.
type record struct {
	at [7]string
	n  int
}

// next reads the first line of a text and returns the rest.
func (f *record) next(text string) string {
	from := 0
	for i := 0; ; i++ {
		end := i == len(text) || text[i] == '\n'
		if !end && text[i] != ':' {
			continue
		}
		if f.n < len(f.at) {
			f.at[f.n] = text[from:i]
			f.n++
		}
		from = i + 1
		if end {
			return text[min(from, len(text)):]
		}
	}
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
