package syntax

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// machine is one parser of one language with a memory of its own. It parses
// one file after the other; after an error it is thrown away.
type machine struct {
	modules []api.Module // in the order they were made
	core    api.Module
	memory  api.Memory

	transfer       uint64 // where the parser leaves what it returns
	parser, buffer uint64
	kinds          []string
	fields         []string

	parse, root, deleteTree                     api.Function
	newCursor, deleteCursor                     api.Function
	firstChild, nextSibling, parent             api.Function
	kindID, named, missing, start, end, fieldID api.Function
}

// work is the parse that is going on, which the parser's callbacks find in
// their context.
type work struct {
	source   *source
	deadline time.Time
}

type workKey struct{}

// tooLong unwinds a parse out of a callback.
type tooLong struct{}

func (tooLong) Error() string { return "the parse took too long" }

func workOf(ctx context.Context) *work {
	w, _ := ctx.Value(workKey{}).(*work)
	return w
}

func (w *work) late(ctx context.Context) bool {
	return ctx.Err() != nil || !w.deadline.IsZero() && time.Now().After(w.deadline)
}

// host gives a runtime the functions that the parser calls. They are closed
// over nothing: a parse's own state comes with its context.
func host(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder("assay")
	fn := func(name string, f api.GoModuleFunc, params, results string) {
		b.NewFunctionBuilder().WithGoModuleFunction(f, valueTypes(params), valueTypes(results)).Export(name)
	}
	fail := func(what string) api.GoModuleFunc {
		return func(context.Context, api.Module, []uint64) { panic(errors.New(what)) }
	}
	fn("emscripten_resize_heap", resizeHeap, "i", "i")
	fn("_abort_js", fail("the parser gave up"), "", "")
	fn("__assert_fail", fail("an assertion of the grammar failed"), "iiii", "")
	fn("tree_sitter_log_callback", func(context.Context, api.Module, []uint64) {}, "ii", "")
	fn("tree_sitter_query_progress_callback", func(_ context.Context, _ api.Module, s []uint64) { s[0] = 0 }, "i", "i")
	fn("tree_sitter_progress_callback", progress, "ii", "i")
	fn("tree_sitter_parse_callback", giveText, "iiiii", "")
	// What a C library writes to: never used, and it goes nowhere.
	fn("fd_write", refuse, "iiii", "i")
	fn("fd_seek", refuse, "iIii", "i")
	fn("fd_close", refuse, "i", "i")
	_, err := b.Instantiate(ctx)
	return err
}

func refuse(_ context.Context, _ api.Module, s []uint64) { s[0] = 52 } // ENOSYS

func resizeHeap(_ context.Context, m api.Module, s []uint64) {
	want, have := uint32(s[0]), m.Memory().Size()
	s[0] = 0
	// A fifth more than now, so that a growing tree does not ask for each page.
	grown := max(uint64(want), uint64(have)+uint64(have)/5)
	pages := (min(grown, maxPages<<16) + 0xffff) >> 16
	if uint64(want) > maxPages<<16 {
		return
	}
	if _, ok := m.Memory().Grow(uint32(pages) - have>>16); ok {
		s[0] = 1
	}
}

func progress(ctx context.Context, _ api.Module, s []uint64) {
	w := workOf(ctx)
	s[0] = 0
	if w != nil && w.late(ctx) {
		s[0] = 1
	}
}

// giveText fills the parser's buffer of 10 KiB from a unit on. A pair of
// surrogates is not torn.
func giveText(ctx context.Context, m api.Module, s []uint64) {
	w := workOf(ctx)
	if w == nil || w.late(ctx) {
		panic(tooLong{})
	}
	b := w.source.chunk(uint32(s[1]), 5000)
	if n := len(b); n > 2 && b[n-1]&0xfc == 0xd8 {
		b = b[:n-2]
	}
	mem := m.Memory()
	if !mem.Write(uint32(s[0]), b) || !mem.WriteUint32Le(uint32(s[4]), uint32(len(b)/2)) {
		panic(errors.New("the parser's buffer is outside its memory"))
	}
}

func valueTypes(s string) []api.ValueType {
	out := make([]api.ValueType, len(s))
	for i, t := range s {
		out[i] = api.ValueTypeI32
		if t == 'I' {
			out[i] = api.ValueTypeI64
		}
	}
	return out
}

// environment is the module that the parser imports from.
func environment() []byte {
	l := &linker{}
	l.fn("assay", "emscripten_resize_heap", "i", "i")
	l.fn("assay", "_abort_js", "", "")
	l.fn("assay", "tree_sitter_log_callback", "ii", "")
	l.fn("assay", "tree_sitter_query_progress_callback", "i", "i")
	l.fn("assay", "tree_sitter_progress_callback", "ii", "i")
	l.fn("assay", "tree_sitter_parse_callback", "iiiii", "")
	l.fn("assay", "fd_write", "iiii", "i")
	l.fn("assay", "fd_seek", "iIii", "i")
	l.fn("assay", "fd_close", "i", "i")
	l.own()
	l.global(global{"__stack_pointer", stackHigh, true})
	l.global(global{"__memory_base", memoryBase, false})
	l.global(global{"__table_base", tableBase, false})
	l.global(global{"__stack_low", stackLow, true})
	l.global(global{"__stack_high", stackHigh, true})
	l.global(global{"__heap_base", heapBase, true})
	return l.bytes()
}

// grammarEnvironment is the module that a grammar imports from: the parser's
// memory, table and library, and where the grammar's own data and functions
// begin.
func grammarEnvironment(memory, table uint32) []byte {
	l := &linker{}
	for _, f := range []struct{ name, params, results string }{
		{"malloc", "i", "i"}, {"calloc", "ii", "i"}, {"realloc", "ii", "i"}, {"free", "i", ""}, {"memcpy", "iii", "i"},
		{"memset", "iii", "i"}, {"memmove", "iii", "i"}, {"memcmp", "iii", "i"}, {"memchr", "iii", "i"}, {"strlen", "i", "i"},
		{"strcmp", "ii", "i"}, {"strncmp", "iii", "i"}, {"strncpy", "iii", "i"}, {"strncat", "iii", "i"},
		{"iswspace", "i", "i"}, {"iswalnum", "i", "i"}, {"iswalpha", "i", "i"}, {"iswblank", "i", "i"}, {"iswdigit", "i", "i"},
		{"iswlower", "i", "i"}, {"iswpunct", "i", "i"}, {"iswupper", "i", "i"}, {"iswxdigit", "i", "i"},
		{"towlower", "i", "i"}, {"towupper", "i", "i"},
	} {
		l.fn("core", f.name, f.params, f.results)
	}
	l.fn("assay", "__assert_fail", "iiii", "")
	l.share("environment")
	l.global(global{"__memory_base", memory, false})
	l.global(global{"__table_base", table, false})
	return l.bytes()
}

// build makes a machine for a grammar out of compiled modules.
func (p *Parser) build(ctx context.Context, g grammar) (_ *machine, err error) {
	core, err := p.compiled(ctx, runtime())
	if err != nil {
		return nil, err
	}
	side, err := p.compiled(ctx, g.artefact)
	if err != nil {
		return nil, err
	}
	m := &machine{}
	defer func() {
		if err != nil {
			m.close(ctx)
			err = fmt.Errorf("start the parser of %s: %w", g.language, err)
		}
	}()
	env, err := p.compileOwn(ctx, environment())
	if err != nil {
		return nil, err
	}
	base, err := m.add(ctx, p.runtime, env.code, nil)
	if err != nil {
		return nil, err
	}
	m.memory = base.Memory()
	m.core, err = m.add(ctx, p.runtime, core.code, map[string]api.Module{"env": base, "GOT.mem": base, "wasi_snapshot_preview1": base})
	if err != nil {
		return nil, err
	}
	if err := m.initialise(ctx, m.core); err != nil {
		return nil, err
	}
	language, err := m.link(ctx, p, base, side, g.export)
	if err != nil {
		return nil, err
	}
	return m, m.ready(ctx, language)
}

// link brings a grammar into the machine's memory and gives its language.
func (m *machine) link(ctx context.Context, p *Parser, base api.Module, side *compiled, export string) (uint64, error) {
	at, err := m.call(ctx, m.core.ExportedFunction("calloc"), uint64(side.memory)+1<<side.align, 1)
	if err != nil {
		return 0, err
	}
	at = (at + 1<<side.align - 1) &^ (1<<side.align - 1)
	env, err := p.compileOwn(ctx, grammarEnvironment(uint32(at), 64))
	if err != nil {
		return 0, err
	}
	e, err := m.add(ctx, p.runtime, env.code, map[string]api.Module{"core": m.core, "environment": base})
	if err != nil {
		return 0, err
	}
	mod, err := m.add(ctx, p.runtime, side.code, map[string]api.Module{"env": e})
	if err != nil {
		return 0, err
	}
	if err := m.initialise(ctx, mod); err != nil {
		return 0, err
	}
	return m.call(ctx, mod.ExportedFunction(export))
}

func (m *machine) add(ctx context.Context, r wazero.Runtime, code wazero.CompiledModule, from map[string]api.Module) (api.Module, error) {
	ctx = experimental.WithImportResolver(ctx, func(name string) api.Module { return from[name] })
	mod, err := r.InstantiateModule(ctx, code, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err == nil {
		m.modules = append(m.modules, mod)
	}
	return mod, err
}

// initialise does what a dynamic linker does with a module.
func (m *machine) initialise(ctx context.Context, mod api.Module) error {
	for _, name := range []string{"__wasm_apply_data_relocs", "__wasm_call_ctors"} {
		if _, err := m.call(ctx, mod.ExportedFunction(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (m *machine) ready(ctx context.Context, language uint64) (err error) {
	if m.transfer, err = m.call(ctx, m.core.ExportedFunction("ts_init")); err != nil {
		return err
	}
	if _, err = m.call(ctx, m.core.ExportedFunction("ts_parser_new_wasm")); err != nil {
		return err
	}
	m.parser, m.buffer = uint64(m.word(m.transfer)), uint64(m.word(m.transfer+4))
	ok, err := m.call(ctx, m.core.ExportedFunction("ts_parser_set_language"), m.parser, language)
	if err != nil {
		return err
	}
	if ok == 0 {
		return errors.New("the grammar is of a version that the parser does not take")
	}
	if m.kinds, err = m.names(ctx, language, "ts_language_symbol_count", "ts_language_symbol_name", 0); err != nil {
		return err
	}
	if m.fields, err = m.names(ctx, language, "ts_language_field_count", "ts_language_field_name_for_id", 1); err != nil {
		return err
	}
	for name, f := range map[string]*api.Function{
		"ts_parser_parse_wasm": &m.parse, "ts_tree_root_node_wasm": &m.root, "ts_tree_delete": &m.deleteTree,
		"ts_tree_cursor_new_wasm": &m.newCursor, "ts_tree_cursor_delete_wasm": &m.deleteCursor,
		"ts_tree_cursor_goto_first_child_wasm": &m.firstChild, "ts_tree_cursor_goto_next_sibling_wasm": &m.nextSibling,
		"ts_tree_cursor_goto_parent_wasm": &m.parent, "ts_tree_cursor_current_node_type_id_wasm": &m.kindID,
		"ts_tree_cursor_current_node_is_named_wasm": &m.named, "ts_tree_cursor_current_node_is_missing_wasm": &m.missing,
		"ts_tree_cursor_start_index_wasm": &m.start, "ts_tree_cursor_end_index_wasm": &m.end,
		"ts_tree_cursor_current_field_id_wasm": &m.fieldID,
	} {
		if *f = m.core.ExportedFunction(name); *f == nil {
			return fmt.Errorf("the parser has no %s", name)
		}
	}
	return nil
}

// names reads the language's table of node kinds or fields; field 0 is none.
func (m *machine) names(ctx context.Context, language uint64, count, name string, first uint64) ([]string, error) {
	n, err := m.call(ctx, m.core.ExportedFunction(count), language)
	if err != nil {
		return nil, err
	}
	out := make([]string, first, n+first)
	for i := first; i < n+first; i++ {
		at, err := m.call(ctx, m.core.ExportedFunction(name), language, i)
		if err != nil {
			return nil, err
		}
		out = append(out, m.cstring(at))
	}
	return out, nil
}

func (m *machine) cstring(at uint64) string {
	var out []byte
	for at != 0 && len(out) < 256 {
		b, ok := m.memory.ReadByte(uint32(at))
		if !ok || b == 0 {
			break
		}
		out = append(out, b)
		at++
	}
	return string(out)
}

func (m *machine) word(at uint64) uint32 {
	b, ok := m.memory.Read(uint32(at), 4)
	if !ok {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

func (m *machine) call(ctx context.Context, f api.Function, params ...uint64) (uint64, error) {
	if f == nil {
		return 0, errors.New("the module lacks a function that is expected of it")
	}
	out, err := f.Call(ctx, params...)
	if err != nil || len(out) == 0 {
		return 0, err
	}
	return out[0], nil
}

func (m *machine) close(ctx context.Context) {
	for i := len(m.modules) - 1; i >= 0; i-- {
		m.modules[i].Close(ctx)
	}
}
