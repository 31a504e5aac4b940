package syntax

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/tetratelabs/wazero/api"
)

// errorKind is the id of a node that stands for what could not be parsed.
const errorKind = 0xffff

// run parses the text of a work and takes the tree out of the machine.
func (m *machine) run(ctx context.Context, w *work) (*Node, error) {
	tree, err := m.call(ctx, m.parse, m.parser, m.buffer, 0, 0, 0)
	if errors.As(err, new(tooLong)) || err == nil && tree == 0 {
		return nil, ErrTooLong
	}
	if err != nil {
		return nil, err
	}
	// The root node and then the cursor stand in the transfer buffer, where all
	// calls below expect and leave it.
	if _, err := m.call(ctx, m.root, tree); err != nil {
		return nil, err
	}
	if _, err := m.call(ctx, m.newCursor, tree); err != nil {
		return nil, err
	}
	c := &cursor{m: m, ctx: ctx, w: w, tree: tree}
	root := c.node(nil)
	err = c.walk(root)
	if err != nil {
		return nil, err
	}
	if _, err := m.call(ctx, m.deleteCursor, tree); err != nil {
		return nil, err
	}
	_, err = m.call(ctx, m.deleteTree, tree)
	return root, err
}

// cursor reads a tree out of the machine's memory, node by node.
type cursor struct {
	m     *machine
	ctx   context.Context
	w     *work
	tree  uint64
	nodes int
	stack [1]uint64
	err   error
	free  []Node // nodes to be given out
}

func (c *cursor) ask(f api.Function) uint32 {
	if c.err != nil {
		return 0
	}
	c.stack[0] = c.tree
	c.err = f.CallWithStack(c.ctx, c.stack[:])
	return uint32(c.stack[0])
}

// node is the one that the cursor stands on.
func (c *cursor) node(parent *Node) *Node {
	if len(c.free) == 0 {
		c.free = make([]Node, 512)
	}
	n := &c.free[0]
	c.free = c.free[1:]
	c.nodes++
	id := c.ask(c.m.kindID)
	n.Kind = "ERROR"
	if int(id) < len(c.m.kinds) {
		n.Kind = c.m.kinds[id]
	}
	n.Named = c.ask(c.m.named) != 0
	n.Error = id == errorKind || c.ask(c.m.missing) != 0
	n.Start, n.End = c.w.source.at(c.ask(c.m.start)), c.w.source.at(c.ask(c.m.end))
	if f := c.ask(c.m.fieldID); int(f) < len(c.m.fields) {
		n.Field = c.m.fields[f]
	}
	lines := c.w.source.lines
	n.Row = sort.Search(len(lines), func(i int) bool { return int(lines[i]) > n.Start }) - 1
	n.Col = n.Start - int(lines[n.Row])
	n.Parent = parent
	return n
}

// walk reads all that is below the root. It is no recursion: the depth of a
// hostile text is its own choice.
func (c *cursor) walk(root *Node) error {
	at, depth := root, 0
	for c.err == nil {
		if c.nodes > maxNodes {
			return fmt.Errorf("more than %d nodes: %w", maxNodes, ErrTooBig)
		}
		if c.nodes%1024 == 0 && c.w.late(c.ctx) {
			return ErrTooLong
		}
		if c.ask(c.m.firstChild) != 0 {
			if depth++; depth > maxDepth {
				return fmt.Errorf("nested more than %d deep: %w", maxDepth, ErrTooBig)
			}
			child := c.node(at)
			at.Children = append(at.Children, child)
			at = child
			continue
		}
		for c.err == nil {
			if at == root {
				return c.err
			}
			if at.Error {
				at.Parent.Error = true
			}
			if c.ask(c.m.nextSibling) != 0 {
				sibling := c.node(at.Parent)
				at.Parent.Children = append(at.Parent.Children, sibling)
				at = sibling
				break
			}
			c.ask(c.m.parent)
			at = at.Parent
			depth--
		}
	}
	return c.err
}
