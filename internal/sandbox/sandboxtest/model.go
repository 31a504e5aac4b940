package sandboxtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"assay/internal/sandbox"
)

// random runs streams of operations on a few sandboxes and on a model that is
// a map from path to content, and compares every tree after each.
func (h harness) random(t *testing.T) {
	rounds := h.times(6, 2) // each makes sandboxes: rapid's 100 would take long
	for i := range rounds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			seed := uint64(i)*7919 + 1
			m := &machine{h: h, t: t}
			m.add(h.create(t), nil, nil)
			steps := rapid.Custom(func(rt *rapid.T) []step {
				return rapid.SliceOfN(rapid.Custom(drawStep), 25, 25).Draw(rt, "steps")
			}).Example(int(seed))
			for n, s := range steps {
				m.do(s)
				if m.compare(); t.Failed() {
					t.Fatalf("after step %d of\n%s", n, render(steps[:n+1]))
				}
			}
		})
	}
}

type step struct {
	op   int
	box  int
	from int
	name string
	to   string
	data string
}

const (
	opWrite = iota
	opWrite2
	opRemove
	opRename
	opSnapshot
	opFork
	opReset
	opPeekFork
	opPut
	ops
)

func drawStep(t *rapid.T) step {
	name := rapid.SampledFrom([]string{"a", "b", "d/a", "d/b", "d/e/a", "f/a"})
	return step{
		op: rapid.IntRange(0, ops-1).Draw(t, "op"), box: rapid.IntRange(0, 9).Draw(t, "box"),
		from: rapid.IntRange(0, 9).Draw(t, "from"), name: name.Draw(t, "name"), to: name.Draw(t, "to"),
		data: rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "data"),
	}
}

func render(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%+v\n", s)
	}
	return b.String()
}

type tree map[string]string

// machine is the real thing and its model side by side.
type machine struct {
	h     harness
	t     *testing.T
	boxes []sandbox.Sandbox
	trees []tree
	base  []tree // what an empty reset goes back to
	snaps []sandbox.Snapshot
	froze []tree
}

func (m *machine) add(s sandbox.Sandbox, now, base tree) {
	if now == nil {
		now, base = tree{}, tree{}
	}
	m.boxes, m.trees, m.base = append(m.boxes, s), append(m.trees, maps.Clone(now)), append(m.base, maps.Clone(base))
}

func (m *machine) keep(s sandbox.Snapshot, tr tree) {
	m.snaps, m.froze = append(m.snaps, s), append(m.froze, maps.Clone(tr))
}

const modelRoot = "/model"

func (m *machine) do(s step) {
	m.t.Helper()
	i := s.box % len(m.boxes)
	box, tr := m.boxes[i], m.trees[i]
	switch s.op {
	case opWrite, opWrite2:
		ok(m.t, box, fmt.Sprintf("mkdir -p %[1]s/%[2]s; printf '%%s' %[3]s > %[1]s/%[4]s", modelRoot, dir(s.name), s.data, s.name))
		tr[s.name] = s.data
	case opPut:
		put(m.t, box, modelRoot, entry{name: s.name, mode: 0o644, body: s.data})
		tr[s.name] = s.data
	case opRemove: // a file, or everything of its directory
		what := s.name
		if s.from%2 == 0 && dir(what) != "." {
			what = dir(what)
		}
		ok(m.t, box, "rm -rf "+modelRoot+"/"+what)
		for p := range tr {
			if p == what || strings.HasPrefix(p, what+"/") {
				delete(tr, p)
			}
		}
	case opRename:
		data, exists := tr[s.name]
		if !exists {
			return
		}
		if s.name != s.to {
			ok(m.t, box, fmt.Sprintf("mkdir -p %[1]s/%[2]s; mv %[1]s/%[3]s %[1]s/%[4]s", modelRoot, dir(s.to), s.name, s.to))
			delete(tr, s.name)
			tr[s.to] = data
		}
	case opSnapshot:
		m.keep(snapshot(m.t, box), tr)
	case opPeekFork:
		if !m.h.b.Capabilities().Peek || len(m.boxes) > 4 {
			return
		}
		snap, err := box.Peek(ctx(m.t))
		if err != nil {
			m.t.Fatal(err)
		}
		m.keep(snap, tr)
		m.add(m.h.fork(m.t, snap), tr, tr)
	case opFork:
		if len(m.snaps) > 0 && len(m.boxes) < 5 {
			j := s.from % len(m.snaps)
			m.add(m.h.fork(m.t, m.snaps[j]), m.froze[j], m.froze[j])
		}
	case opReset:
		if len(m.snaps) > 0 && s.from%3 > 0 {
			j := s.from % len(m.snaps)
			reset(m.t, box, m.snaps[j])
			m.trees[i] = maps.Clone(m.froze[j])
			return
		}
		reset(m.t, box, "")
		m.trees[i] = maps.Clone(m.base[i])
	}
}

func dir(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i]
	}
	return "."
}

// compare reads every sandbox's tree.
func (m *machine) compare() {
	m.t.Helper()
	for i, box := range m.boxes {
		got := tree{}
		ok(m.t, box, "mkdir -p "+modelRoot)
		for _, e := range get(m.t, box, modelRoot) {
			if e.typ == '0' {
				got[e.name] = e.body
			}
		}
		if !maps.Equal(got, m.trees[i]) {
			m.t.Errorf("sandbox %d holds %v, want %v", i, sorted(got), sorted(m.trees[i]))
		}
	}
}

func sorted(t tree) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(t)) {
		out = append(out, k+"="+t[k])
	}
	return out
}
