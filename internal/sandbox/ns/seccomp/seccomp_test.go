package seccomp

import (
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
)

// filterOf runs what Compile returns on the interpreter of x/net, whose loads
// are big-endian: the words of the data are handed over as such.
func filterOf(t *testing.T, p Policy) func(audit, number uint32, args ...uint32) uint32 {
	t.Helper()
	b, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	var prog []bpf.Instruction
	for i := range slices.Chunk(b, 8) {
		prog = append(prog, bpf.RawInstruction{Op: binary.LittleEndian.Uint16(i), Jt: i[2], Jf: i[3], K: binary.LittleEndian.Uint32(i[4:])}.Disassemble())
	}
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	return func(audit, number uint32, args ...uint32) uint32 {
		data := make([]byte, 64)
		binary.BigEndian.PutUint32(data[offNumber:], number)
		binary.BigEndian.PutUint32(data[offArch:], audit)
		for i, a := range args {
			binary.BigEndian.PutUint32(data[offArgs+8*i:], a)
		}
		v, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(v)
	}
}

// calls reads all calls there are: numbers by name, for each column.
func calls(t *testing.T) (all [4]map[string]uint32) {
	t.Helper()
	b, err := os.ReadFile("testdata/syscalls.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i] = map[string]uint32{}
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		for i, n := range f[1:] {
			if n == "-" {
				continue
			}
			v, err := strconv.ParseUint(n, 10, 32)
			if err != nil {
				t.Fatal(line)
			}
			all[i][f[0]] = uint32(v)
		}
	}
	return all
}

// dockerAllows lists the calls that Docker's default profile allows, whatever
// their arguments.
func dockerAllows(t *testing.T) map[string]bool {
	t.Helper()
	b, err := os.ReadFile("testdata/docker.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			out[strings.TrimSpace(line)] = true
		}
	}
	return out
}

// Every call on every table: what Docker refuses we refuse, and what Docker
// allows we allow, but for what is listed here with its reason.
func TestAsDocker(t *testing.T) {
	stricter := map[string]string{
		"socketcall": "its family lies in memory, and AF_VSOCK must not be reached",
	}
	docker, all := dockerAllows(t), calls(t)
	if len(docker) < 300 {
		t.Fatalf("Docker allows %d calls only", len(docker))
	}
	for arch, columns := range map[string][]int{"amd64": {0, 1}, "arm64": {2, 3}, "riscv64": {2}, "loong64": {2}} {
		run := filterOf(t, Policy{Arch: arch})
		tables, err := abis(arch)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range columns {
			for name, number := range all[c] {
				// With these arguments Docker's conditions allow.
				got := run(tables[i].audit, number, 0, 0, 0)
				if name == "socketcall" {
					got = run(tables[i].audit, number, callSocket)
				}
				want := docker[name]
				if name == "set_tls" || name == "cacheflush" || name == "breakpoint" {
					want = true
				}
				if (got == allow) != want && stricter[name] == "" {
					t.Errorf("%s: %s (%d): %#x, and Docker allows it: %v", arch, name, number, got, want)
				}
				if stricter[name] != "" && got == allow {
					t.Errorf("%s: %s is allowed", arch, name)
				}
			}
		}
	}
}

// The table's numbers are those of the kernel.
func TestTable(t *testing.T) {
	all := calls(t)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		for c, n := range f[2:] {
			want, ok := all[c][f[1]]
			if n == "-" && !ok {
				continue
			}
			if v, err := strconv.ParseUint(n, 10, 32); err != nil || !ok || uint32(v) != want {
				t.Errorf("%s, column %d: %s, the kernel has %d (%v)", f[1], c, n, want, ok)
			}
		}
	}
}

func TestArguments(t *testing.T) {
	const amd64, i386, x32 = 0xc000003e, 0x40000003, 0x40000000
	run := filterOf(t, Policy{Arch: "amd64"})
	faked := filterOf(t, Policy{Arch: "amd64", FakeOwners: true})
	for _, c := range []struct {
		name       string
		got, wants uint32
	}{
		{"clone of a thread", run(amd64, 56, 0x3d0f00), allow},
		{"clone of a process", run(amd64, 56, 17), allow},
		{"clone with a user namespace", run(amd64, 56, 0x10000011), eperm},
		{"clone with a network namespace", run(amd64, 56, 0x40000000), eperm},
		{"the same by the 32-bit table", run(i386, 120, 0x10000011), eperm},
		{"clone3", run(amd64, 435), enosys},
		{"AF_UNIX", run(amd64, 41, 1), allow},
		{"AF_NETLINK", run(amd64, 41, 16), allow},
		{"AF_PACKET", run(amd64, 41, 17), allow},
		{"AF_ALG", run(amd64, 41, 38), eperm},
		{"AF_VSOCK", run(amd64, 41, 40), eperm},
		{"AF_VSOCK by the 32-bit table", run(i386, 359, 40), eperm},
		{"socket by socketcall", run(i386, 102, 1), eperm},
		{"bind by socketcall", run(i386, 102, 2), allow},
		{"personality of Linux", run(amd64, 135, 0), allow},
		{"personality asked", run(amd64, 135, 0xffffffff), allow},
		{"personality without randomisation", run(amd64, 135, 0x40000), eperm},
		{"limits of its own", run(amd64, 302, 0, 7, 0x1000), allow},
		{"limits of init", run(amd64, 302, 1, 7, 0x1000), eperm},
		{"limits of init, asked", run(amd64, 302, 1, 7, 0), allow},
		{"limits of init by the 32-bit table", run(i386, 340, 1, 7, 0x1000), eperm},
		{"x32", run(amd64, x32|39), enosys},
		{"x32's own", run(amd64, x32|520), enosys},
		{"a call of the future", run(amd64, 472), enosys},
		{"a table of another machine", run(0xc00000b7, 39), enosys},
		{"ARM's own", filterOf(t, Policy{Arch: "arm64"})(0x40000028, 0xf0005), allow},
		{"beyond ARM's own", filterOf(t, Policy{Arch: "arm64"})(0x40000028, 0xf0006), enosys},
		{"chown", run(amd64, 92), allow},
		{"chown, faked", faked(amd64, 92), success},
		{"fchownat, faked", faked(amd64, 260), success},
		{"setuid, faked, 32-bit", faked(i386, 213), success},
		{"pipe by mknod", faked(amd64, 133, 0, 0o10644), allow},
		{"file by mknodat", faked(amd64, 259, 0, 0, 0o644), allow},
		{"device by mknod", faked(amd64, 133, 0, 0o20666), success},
		{"disk by mknodat", faked(amd64, 259, 0, 0, 0o60660), success},
		{"device by mknod, not faked", run(amd64, 133, 0, 0o20666), allow}, // the kernel refuses it
		{"mount, faked", faked(amd64, 165), eperm},
	} {
		if c.got != c.wants {
			t.Errorf("%s: %#x, not %#x", c.name, c.got, c.wants)
		}
	}
}

func TestUnknownMachine(t *testing.T) {
	if _, err := Compile(Policy{Arch: "mips"}); err == nil {
		t.Error("compiled for a machine without a table")
	}
}

// The kernel decides by the same bytes for every number; a hole in the tree of
// decisions would fall through to the next table.
func TestEveryNumberEnds(t *testing.T) {
	for _, fake := range []bool{false, true} {
		run := filterOf(t, Policy{Arch: "amd64", FakeOwners: fake})
		for _, audit := range []uint32{0xc000003e, 0x40000003, 7} {
			for n := range uint32(2048) {
				switch v := run(audit, n, n); v {
				case allow, eperm, enosys:
				case success:
					if !fake {
						t.Errorf("%#x %d is faked", audit, n)
					}
				default:
					t.Errorf("%#x %d: %#x", audit, n, v)
				}
			}
		}
	}
}
