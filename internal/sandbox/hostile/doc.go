// Package hostile attacks a sandbox and says what held: a list of attacks from
// inside (this same program, mounted as the attacker) and of hostile trees and
// archives for what the host copies. Each runs against the backend as it is.
// Then it runs again where the wall that held it is down, inside of another
// sandbox whose limits stay up, to show that it has teeth. Attacks that fail
// with every wall of ours down are the kernel's to refuse.
//
// The package never aims at anything outside of a namespace that it made, and
// an attacker refuses to run outside of a user namespace. It names no backend:
// the caller opens them.
package hostile

import (
	"context"
	"net/netip"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Result is what one attack came to.
type Result struct {
	Attack    string `json:"attack"`
	Class     string `json:"class"`
	Contained bool   `json:"contained"`
	// Bites is true if it works with its walls down, "kernel" if it fails with
	// all of ours down, false if neither could be shown.
	Bites   any    `json:"bites"`
	Walls   string `json:"walls,omitempty"` // of ours that hold it
	Detail  string `json:"detail,omitempty"`
	Without string `json:"without,omitempty"` // what came of it with its walls down
}

// Opener opens a backend with walls down, its store below dir.
type Opener func(ctx context.Context, dir image.HostPath, without sandbox.Defences) (sandbox.Backend, error)

// Lookup answers names.
type Lookup func(name string) []netip.Addr

// Gate makes the host's side of an allow-list with rules as a task writes them.
type Gate func(rules []string, names Lookup) (sandbox.Egress, error)

// Host is what attackers within a sandbox need to be a host themselves.
type Host struct {
	Open Opener
	Gate Gate
}

// Options of a run. Open, Dir and Image are required.
type Options struct {
	Open  Opener
	Dir   image.HostPath // for stores and bait
	Image image.Image
	Match func(attack string) bool // nil: all of them
	UID   sandbox.UIDMode          // of the sandboxes that are attacked
}

// marker is where the attacker is mounted, and so its argv[0].
const marker = "/.assay-attack"
