package program

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"assay/internal/grade/checks"
	"assay/internal/grade/program/drivers"
)

// Suite is a group of cases as a plan and its files below tests/ have it.
type Suite struct {
	Group     checks.Cases
	Cases     []Case
	Reference []byte // the file that gives what no case says; nil: there is none
}

// Case is one line of a group's file. Which fields count depends on the group:
// a program has Args, Stdin, Files and Want, a function has Calls or a Script,
// a query has Schema.
type Case struct {
	ID      string
	Line    int // in the group's file
	Mode    Mode
	Equal   Equality
	Timeout time.Duration

	Args  []string
	Stdin string
	Files map[string]string // relative to the working directory
	Env   []string
	Want  Output

	Calls []Call // one after the other in one process; they have one state
	// Script is Python that asserts; its calls of Funcs are the candidate's.
	Script string
	Funcs  []string

	Schema  string // statements that make the database
	Query   string // instead of the source's
	After   string // a query after the source, whose rows count instead of the source's
	Ordered *bool  // nil: if the reference orders; without one: no
	Table   *Table // nil: the reference's
}

// Call is a call of a function. Without Want and Raises the reference says what
// it returns.
type Call struct {
	Func   string
	Args   []Value
	Kwargs Value // a dict with string keys; Invalid: none
	Want   Value
	Raises *Raises
}

// Raises is an exception that is wanted.
type Raises struct {
	Type    string         // its name, or one of its ancestors'
	Message *regexp.Regexp // nil: any
}

// Output is what a program is to leave. What is nil is not looked at.
type Output struct {
	Stdout, Stderr *string
	Exit           *int
	Files          map[string]string
}

// Caps of a case file, which is its author's.
const (
	maxCases   = 50_000
	maxFile    = 256 << 20
	maxName    = 200 // bytes of an id
	maxTimeout = time.Hour
	defTimeout = 10 * time.Second
)

// Load reads a group's file of cases, and its reference, below tests. A fault
// names file and line.
func Load(tests fs.FS, g checks.Cases) (Suite, error) {
	s := Suite{Group: g}
	data, err := readAll(tests, g.File)
	if err != nil {
		return s, err
	}
	if g.Reference != "" {
		if s.Reference, err = readAll(tests, g.Reference); err != nil {
			return s, err
		}
	}
	s.Cases, err = Parse(data, g)
	if err != nil {
		return s, fmt.Errorf("%s:%w", g.File, err)
	}
	return s, nil
}

func readAll(tests fs.FS, name string) ([]byte, error) {
	f, err := tests.Open(path.Clean(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s: not a regular file of at most %d bytes", name, maxFile)
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(f)
	return b.Bytes(), err
}

// Parse reads the lines of a case file. Errors begin with the line's number.
func Parse(data []byte, g checks.Cases) ([]Case, error) {
	if err := valid(g); err != nil {
		return nil, fmt.Errorf("0: %w", err)
	}
	var all []Case
	first := map[string]int{}
	line := 0
	for part := range bytes.Lines(data) {
		line++
		part = bytes.TrimSpace(part)
		if len(part) == 0 {
			continue
		}
		c, err := parseCase(part, g)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", line, err)
		}
		if at, again := first[c.ID]; again {
			return nil, fmt.Errorf("%d: the id %q is that of line %d", line, c.ID, at)
		}
		if len(all) == maxCases {
			return nil, fmt.Errorf("%d: more than %d cases", line, maxCases)
		}
		c.Line, first[c.ID] = line, line
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("1: there is no case")
	}
	return all, nil
}

// Languages are the words of a group's "call".
var languages = []string{drivers.Python, drivers.JavaScript, drivers.Go, drivers.SQL}

func valid(g checks.Cases) error {
	switch {
	case g.Call == "" && len(g.Run) == 0:
		return fmt.Errorf("the group %q says neither run nor call", g.Name)
	case g.Call != "" && !slices.Contains(languages, g.Call):
		return fmt.Errorf("the group %q calls %q (there are %s)", g.Name, g.Call, strings.Join(languages, ", "))
	case g.Call != "" && g.Source == "":
		return fmt.Errorf("the group %q has no source", g.Name)
	case g.Call == "" && g.Reference != "":
		return fmt.Errorf("the group %q: a reference is for calls", g.Name)
	}
	return checkMode(g, Mode(g.Compare))
}

func checkMode(g checks.Cases, m Mode) error {
	modes := Modes(g.Call != "")
	if g.Call == drivers.SQL {
		modes = []Mode{SQL}
	}
	if m == "" || slices.Contains(modes, m) {
		return nil
	}
	return fmt.Errorf("no comparison here is called %q (there are %v)", m, modes)
}

// fields takes an object apart, key by key.
type fields struct {
	v    Value
	used map[string]bool
	err  error
}

func object(v Value, what string) (*fields, error) {
	if v.Kind != Dict {
		return nil, fmt.Errorf("%s is not an object", what)
	}
	return &fields{v: v, used: map[string]bool{}}, nil
}

// get returns the value of a key, if it is there and of one of the kinds.
func (f *fields) get(key string, kinds ...Kind) (Value, bool) {
	for i := 0; i < len(f.v.Items); i += 2 {
		if f.v.Items[i].S != key {
			continue
		}
		f.used[key] = true
		v := f.v.Items[i+1]
		if len(kinds) > 0 && !slices.Contains(kinds, v.Kind) {
			f.fail("%s is a %s, not a %s", key, v.Kind, kinds[0])
			return v, false
		}
		return v, true
	}
	return Value{}, false
}

func (f *fields) fail(format string, a ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, a...)
	}
}

func (f *fields) str(key string) string {
	v, _ := f.get(key, String)
	return v.S
}

func (f *fields) float(key string, zero float64) float64 {
	if v, ok := f.get(key, Float, Int); ok {
		x := real64(v)
		if x < 0 || math.IsInf(x, 0) {
			f.fail("%s is negative or infinite", key)
		}
		return x
	}
	return zero
}

func (f *fields) strs(key string) []string {
	v, _ := f.get(key, List)
	var all []string
	for _, x := range v.Items {
		if x.Kind != String {
			f.fail("%s is not a list of strings", key)
			return nil
		}
		all = append(all, x.S)
	}
	return all
}

// texts is an object of texts, or of {"$bytes": …}; what is the limit on keys.
func (f *fields) texts(key string, ok func(name string) bool) map[string]string {
	v, there := f.get(key, Dict)
	if !there {
		return nil
	}
	all := map[string]string{}
	for i := 0; i < len(v.Items); i += 2 {
		x, err := Plain(v.Items[i+1])
		if err != nil || x.Kind != String && x.Kind != Bytes || !ok(v.Items[i].S) {
			f.fail("%s: %q cannot be that", key, v.Items[i].S)
			return nil
		}
		all[v.Items[i].S] = x.S
	}
	return all
}

// done is the first fault, an unknown key included.
func (f *fields) done(what string) error {
	for i := 0; i < len(f.v.Items) && f.err == nil; i += 2 {
		if k := f.v.Items[i].S; !f.used[k] {
			f.fail("%s has no key %q", what, k)
		}
	}
	return f.err
}

func localPath(p string) bool { return fs.ValidPath(p) && p != "." }

func validID(id string) bool {
	return id != "" && len(id) <= maxName && strings.TrimSpace(id) == id && strings.IndexFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

func parseCase(data []byte, g checks.Cases) (Case, error) {
	v, err := ParseJSON(data)
	if err != nil {
		return Case{}, err
	}
	f, err := object(v, "a case")
	if err != nil {
		return Case{}, err
	}
	c := Case{ID: f.str("id"), Mode: Mode(f.str("compare"))}
	if f.err == nil && !validID(c.ID) {
		f.fail("id is not a text of 1 to %d printable characters", maxName)
	}
	if err := checkMode(g, c.Mode); err != nil {
		f.fail("%w", err)
	}
	c.defaults(f, g)
	switch g.Call {
	case "":
		c.program(f)
	case drivers.SQL:
		c.query(f, g)
	default:
		c.function(f, g)
	}
	return c, f.done("a case of this group")
}

func (c *Case) defaults(f *fields, g checks.Cases) {
	if c.Mode == "" {
		c.Mode = Mode(g.Compare)
	}
	if c.Mode == "" {
		c.Mode = map[string]Mode{"": Text, drivers.SQL: SQL}[g.Call]
	}
	if c.Mode == "" {
		c.Mode = Exact
	}
	c.Equal = Equality{Abs: f.float("abs_tol", g.AbsTol), Rel: f.float("rel_tol", g.RelTol), Bools: g.Call == drivers.Python}
	if c.Mode == Numbers && c.Equal.Abs == 0 && c.Equal.Rel == 0 {
		c.Equal.Abs, c.Equal.Rel = DefaultTolerance, DefaultTolerance
	}
	c.Timeout = time.Duration(f.float("timeout_sec", g.TimeSec) * float64(time.Second))
	if c.Timeout <= 0 {
		c.Timeout = defTimeout
	}
	c.Timeout = min(c.Timeout, maxTimeout)
}

func (c *Case) program(f *fields) {
	c.Args, c.Stdin, c.Files = f.strs("args"), "", f.texts("files", localPath)
	if v, ok := f.get("stdin"); ok {
		x, err := Plain(v)
		if err != nil || x.Kind != String && x.Kind != Bytes {
			f.fail("stdin is not a text")
		}
		c.Stdin = x.S
	}
	for name, value := range f.texts("env", func(n string) bool { return n != "" && !strings.ContainsAny(n, "=\x00") }) {
		c.Env = append(c.Env, name+"="+value)
	}
	slices.Sort(c.Env)
	v, _ := f.get("want")
	w, err := object(v, "want")
	if err != nil {
		f.fail("%w", err)
		return
	}
	for key, to := range map[string]**string{"stdout": &c.Want.Stdout, "stderr": &c.Want.Stderr} {
		if v, ok := w.get(key); ok {
			x, err := Plain(v)
			if err != nil || x.Kind != String && x.Kind != Bytes {
				w.fail("want.%s is not a text", key)
			}
			*to = &x.S
		}
	}
	zero := 0
	c.Want.Exit = &zero
	if v, ok := w.get("exit", Int, Null); ok {
		c.Want.Exit = nil
		if v.Kind == Int {
			n := int(v.I.Int64())
			c.Want.Exit = &n
		}
	}
	c.Want.Files = w.texts("files", localPath)
	if c.Want.Stdout == nil && c.Want.Stderr == nil && len(c.Want.Files) == 0 && !w.used["exit"] {
		w.fail("want has none of stdout, stderr, exit, files")
	}
	if err := w.done("want"); err != nil {
		f.fail("%w", err)
	}
}

var funcName = regexp.MustCompile(`^[\pL_$][\pL\pN_$.]{0,199}$`)

func (c *Case) function(f *fields, g checks.Cases) {
	if _, ok := f.get("script", String); ok {
		c.Script, c.Funcs = f.str("script"), f.strs("funcs")
		if len(c.Funcs) == 0 || slices.ContainsFunc(c.Funcs, func(n string) bool { return !funcName.MatchString(n) }) {
			f.fail("a script names the functions of the candidate that it calls: funcs")
		}
		if g.Call != drivers.Python {
			f.fail("a script is Python, and this group calls %s", g.Call)
		}
		return
	}
	name := f.str("func")
	v, several := f.get("calls", List)
	if !several {
		c.Calls = []Call{parseCall(f, name, g)}
		return
	}
	if len(v.Items) == 0 {
		f.fail("calls is empty")
	}
	for i, x := range v.Items {
		one, err := object(x, "a call")
		if err != nil {
			f.fail("calls[%d]: %w", i, err)
			return
		}
		own := name
		if n, ok := one.get("func", String); ok {
			own = n.S
		}
		c.Calls = append(c.Calls, parseCall(one, own, g))
		if err := one.done("a call"); err != nil {
			f.fail("calls[%d]: %w", i, err)
		}
	}
}

func parseCall(f *fields, name string, g checks.Cases) Call {
	c := Call{Func: name}
	if !funcName.MatchString(name) {
		f.fail("func is not the name of a function")
	}
	plain := func(key string) Value {
		v, ok := f.get(key)
		if !ok {
			return Value{}
		}
		p, err := Plain(v)
		if err != nil {
			f.fail("%s: %w", key, err)
		}
		return p
	}
	if v := plain("args"); v.Kind == List {
		c.Args = v.Items
	} else if v.Kind != Invalid {
		f.fail("args is not a list")
	}
	if c.Kwargs = plain("kwargs"); c.Kwargs.Kind != Invalid && (c.Kwargs.Kind != Dict || g.Call != drivers.Python) {
		f.fail("kwargs is an object, and for Python alone")
	}
	c.Want = plain("want")
	if v, ok := f.get("raises", Dict); ok {
		c.Raises = parseRaises(f, v)
	}
	if given := c.Want.Kind != Invalid; given && c.Raises != nil {
		f.fail("want and raises exclude each other")
	} else if !given && c.Raises == nil && g.Reference == "" {
		f.fail("neither want nor raises, and the group has no reference")
	}
	return c
}

func parseRaises(f *fields, v Value) *Raises {
	r, err := object(v, "raises")
	if err != nil {
		f.fail("%w", err)
		return nil
	}
	out := &Raises{Type: r.str("type")}
	if s := r.str("message"); s != "" {
		if out.Message, err = regexp.Compile(s); err != nil {
			r.fail("raises.message: %w", err)
		}
	}
	if out.Type == "" {
		r.fail("raises has no type")
	}
	if err := r.done("raises"); err != nil {
		f.fail("%w", err)
	}
	return out
}

func (c *Case) query(f *fields, g checks.Cases) {
	c.Schema, c.Query, c.After = f.str("schema"), f.str("query"), f.str("after")
	if v, ok := f.get("ordered", Bool); ok {
		c.Ordered = &v.B
	}
	v, ok := f.get("want", Dict)
	if !ok {
		if g.Reference == "" {
			f.fail("no want, and the group has no reference")
		}
		return
	}
	p, err := Plain(v)
	if err == nil {
		c.Table, err = tableOf(p)
	}
	if err != nil {
		f.fail("want: %w", err)
	}
}
