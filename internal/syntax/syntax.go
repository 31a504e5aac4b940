// Package syntax parses the source of many languages into one form of syntax
// tree. The grammars are the official ones of tree-sitter, as WebAssembly, run
// by wazero: a hostile file can break nothing but its own parse.
//
// A grammar is a package of a public registry, pinned by version and integrity
// hash, fetched once into a cache and never part of the tree of sources. The
// package knows nothing of what its callers look for in a tree.
package syntax

// Language is a language that can be parsed; the table is Languages.
type Language string

const (
	Python     Language = "python"
	JavaScript Language = "javascript"
	TypeScript Language = "typescript"
	TSX        Language = "tsx"
	Go         Language = "go"
	Rust       Language = "rust"
	Java       Language = "java"
	C          Language = "c"
	CPP        Language = "cpp"
)

// Node is one node of a tree. Offsets are bytes of the source.
type Node struct {
	Kind     string // the grammar's, "if_statement"; of an anonymous node its text, "=="
	Field    string // its name in the parent, "condition"; empty: none
	Named    bool
	Error    bool // this node or one below it is an error, or missing
	Start    int
	End      int
	Row, Col int // of Start, from 0; Col in bytes
	Parent   *Node
	Children []*Node // anonymous ones too
}

// Tree is a parsed file.
type Tree struct {
	Language Language
	Source   []byte
	Root     *Node
}

// Text is what a node stands for.
func (t *Tree) Text(n *Node) string { return string(t.Source[n.Start:n.End]) }

// Child is the child with that field name; nil: none.
func (n *Node) Child(field string) *Node {
	for _, c := range n.Children {
		if c.Field == field {
			return c
		}
	}
	return nil
}

// Walk calls f for n and what is below it, parents first; f returns false to
// leave out what is below a node.
func (n *Node) Walk(f func(*Node) bool) {
	if !f(n) {
		return
	}
	for _, c := range n.Children {
		c.Walk(f)
	}
}
