package inside

import (
	"bufio"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const maxPasswd = 4 << 20 // bytes

// credential finds the ids of a user, by name or number with an optional
// group, in the container's own files. Nil is root, who this process is. A
// HOME that nobody set becomes the user's.
func credential(user string, attr *syscall.ProcAttr) (*syscall.Credential, error) {
	home, name := "", user
	if user == "" {
		name = "root"
	}
	name, group, hasGroup := strings.Cut(name, ":")
	c := &syscall.Credential{}
	if f := lookUp("/etc/passwd", name, 7); f != nil {
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil {
			return nil, notStarted("user %q has no numbers in /etc/passwd", name)
		}
		c.Uid, c.Gid, home, name = uint32(uid), uint32(gid), f[5], f[0]
	} else if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		c.Uid = uint32(n)
	} else if name != "root" {
		return nil, notStarted("user %q is not in /etc/passwd", name)
	}
	if hasGroup {
		number := group
		if f := lookUp("/etc/group", group, 3); f != nil {
			number = f[2]
		}
		g, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return nil, notStarted("group %q is not in /etc/group", group)
		}
		c.Gid = uint32(g)
	} else {
		c.Groups = groupsOf(name, c.Gid)
	}
	if home == "" {
		home = "/"
		if c.Uid == 0 {
			home = "/root"
		}
	}
	if !slices.ContainsFunc(attr.Env, func(e string) bool { return strings.HasPrefix(e, "HOME=") }) {
		attr.Env = append(attr.Env, "HOME="+home)
	}
	if c.Uid == 0 && c.Gid == 0 && user == "" {
		return nil, nil
	}
	return c, nil
}

// lookUp returns the fields of the line for a name, or a number in the third
// field; nil if none has that many fields.
func lookUp(file, name string, fields int) (found []string) {
	eachLine(file, func(f []string) bool {
		if len(f) >= fields && (f[0] == name || f[2] == name) {
			found = f
		}
		return found == nil
	})
	return found
}

func eachLine(file string, f func([]string) bool) {
	r, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer r.Close()
	lines := bufio.NewScanner(io.LimitReader(r, maxPasswd))
	for lines.Scan() {
		if !f(strings.Split(lines.Text(), ":")) {
			return
		}
	}
}

// groupsOf lists the groups that a user is a member of.
func groupsOf(name string, own uint32) []uint32 {
	all := []uint32{own}
	eachLine("/etc/group", func(f []string) bool {
		if len(f) >= 4 && slices.Contains(strings.Split(f[3], ","), name) {
			if g, err := strconv.ParseUint(f[2], 10, 32); err == nil && uint32(g) != own {
				all = append(all, uint32(g))
			}
		}
		return len(all) < 60000
	})
	return all
}
