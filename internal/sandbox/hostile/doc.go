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
	Bites  any    `json:"bites"`
	Walls  string `json:"walls,omitempty"` // of ours that hold it
	Detail string `json:"detail,omitempty"`
}

// Opener opens a backend with walls down, its store below dir.
type Opener func(ctx context.Context, dir image.HostPath, without sandbox.Defences) (sandbox.Backend, error)

// Options of a run. Open, Dir and Image are required.
type Options struct {
	Open  Opener
	Dir   image.HostPath // for stores and bait
	Image image.Image
	Match func(attack string) bool // nil: all of them
}

// marker is where the attacker is mounted, and so its argv[0].
const marker = "/.assay-attack"
