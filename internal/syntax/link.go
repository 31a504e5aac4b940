package syntax

import "encoding/binary"

// The modules here link others: a host module of wazero cannot export a
// memory, a table or a global, so the "env" that the parser and its grammars
// import from is itself a small module, written byte by byte. The format is
// https://webassembly.github.io/spec/core/binary/modules.html.

const (
	kindFunc, kindTable, kindMemory, kindGlobal = 0, 1, 2, 3

	i32     = 0x7f
	i64     = 0x7e
	funcref = 0x70
)

// The layout that the pinned web-tree-sitter was linked for; its data stands
// at 1024, its stack grows down from the heap's base.
const (
	memoryBase = 1024
	tableBase  = 1
	stackLow   = 16704
	stackHigh  = 82240
	heapBase   = 82240

	minPages   = 512  // of 64 KiB, what the parser imports at least
	maxPages   = 6144 // 384 MiB: what one parse may take
	tableSlots = 128
)

type global struct {
	name    string
	value   uint32
	mutable bool
}

// linker writes one module.
type linker struct {
	types, imports, exports [][]byte
	globals                 [][]byte
	funcs, globalsIn        uint32 // imported so far
	memory, table           []byte // sections, where they are its own
}

// fn imports a function and exports it under its own name.
func (l *linker) fn(from, name, params, results string) {
	l.types = append(l.types, append(append([]byte{0x60}, vector(params)...), vector(results)...))
	l.imports = append(l.imports, entry(from, name, kindFunc, uleb(uint32(len(l.types)-1))...))
	l.export(name, kindFunc, l.funcs)
	l.funcs++
}

func (l *linker) export(name string, kind byte, index uint32) {
	l.exports = append(l.exports, append(append(text(name), kind), uleb(index)...))
}

// share imports the memory, the table and the stack pointer of another module
// and exports them.
func (l *linker) share(from string) {
	limits := append(append([]byte{1}, uleb(minPages)...), uleb(maxPages)...)
	l.imports = append(l.imports, entry(from, "memory", kindMemory, limits...))
	l.export("memory", kindMemory, 0)
	l.imports = append(l.imports, entry(from, "__indirect_function_table", kindTable, append([]byte{funcref, 0}, uleb(tableSlots)...)...))
	l.export("__indirect_function_table", kindTable, 0)
	l.imports = append(l.imports, entry(from, "__stack_pointer", kindGlobal, i32, 1))
	l.export("__stack_pointer", kindGlobal, 0)
	l.globalsIn++
}

// own makes a memory and a table.
func (l *linker) own() {
	l.memory = append(append([]byte{1, 1}, uleb(minPages)...), uleb(maxPages)...)
	l.export("memory", kindMemory, 0)
	l.table = append([]byte{1, funcref, 0}, uleb(tableSlots)...)
	l.export("__indirect_function_table", kindTable, 0)
}

func (l *linker) global(g global) {
	mut := byte(0)
	if g.mutable {
		mut = 1
	}
	b := append([]byte{i32, mut, 0x41}, sleb(int32(g.value))...)
	l.globals = append(l.globals, append(b, 0x0b))
	l.export(g.name, kindGlobal, l.globalsIn+uint32(len(l.globals)-1))
}

// bytes is the module.
func (l *linker) bytes() []byte {
	out := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	section := func(id byte, body []byte) {
		if len(body) > 0 {
			out = append(append(append(out, id), uleb(uint32(len(body)))...), body...)
		}
	}
	section(1, vectors(l.types))
	section(2, vectors(l.imports))
	section(4, l.table)
	section(5, l.memory)
	section(6, vectors(l.globals))
	section(7, vectors(l.exports))
	return out
}

func vectors(items [][]byte) []byte {
	if len(items) == 0 {
		return nil
	}
	out := uleb(uint32(len(items)))
	for _, i := range items {
		out = append(out, i...)
	}
	return out
}

func vector(types string) []byte {
	out := uleb(uint32(len(types)))
	for _, t := range types {
		if t == 'I' {
			out = append(out, i64)
		} else {
			out = append(out, i32)
		}
	}
	return out
}

func entry(from, name string, kind byte, rest ...byte) []byte {
	return append(append(append(text(from), text(name)...), kind), rest...)
}

func text(s string) []byte { return append(uleb(uint32(len(s))), s...) }

func uleb(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func sleb(v int32) []byte {
	var out []byte
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// sizes reads what a side module wants of memory and table out of its section
// dylink.0, which is its first
// (https://github.com/WebAssembly/tool-conventions/blob/main/DynamicLinking.md).
func sizes(module []byte) (memory, align, table uint32, ok bool) {
	b := module[min(8, len(module)):]
	next := func() uint32 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<31 {
			b = nil
			return 0
		}
		b = b[n:]
		return uint32(v)
	}
	if len(b) == 0 || b[0] != 0 { // a custom section
		return 0, 0, 0, false
	}
	b = b[1:]
	next()
	if n := next(); int(n) > len(b) || string(b[:n]) != "dylink.0" {
		return 0, 0, 0, false
	} else {
		b = b[n:]
	}
	if next() != 1 { // WASM_DYLINK_MEM_INFO
		return 0, 0, 0, false
	}
	next()
	memory, align, table = next(), next(), next()
	return memory, align, table, memory > 0 && memory < maxFile && align < 16 && table < tableSlots
}
