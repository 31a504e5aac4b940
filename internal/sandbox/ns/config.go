package ns

import (
	"fmt"
	"runtime"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// Config is what a backend needs to know. Store is required.
type Config struct {
	// Self re-executes this program: its path and arguments to put behind
	// argv[0]. Empty: /proc/self/exe. The program must call Main first.
	Self []string
	// Store holds the layers. When the process is root, its layers must belong
	// to RootUID (image.Options.Owner).
	Store *image.Store
	// Scratch is a directory on disk for trees that are too large for memory.
	// Empty: such sandboxes are refused.
	Scratch image.HostPath
	// RootUID is the host's user and group id that the root of every sandbox
	// is when this process is root. 0: DefaultRootUID.
	RootUID int
	// TmpfsMax is the largest disk limit that is held in memory, in bytes;
	// a larger one goes to Scratch. 0: an eighth of the memory, at most 4 GiB.
	TmpfsMax int64
	// Disk puts every tree into Scratch.
	Disk bool
	// Root is where the kernel's settings are read for explanations; empty: /.
	Root image.HostPath
	// Warm is how many inits wait for a sandbox in advance. 0: 2, one for a sandbox
	// and one for its next tree; negative: none.
	Warm int

	// NoCgroups leaves control groups alone, where they could be used.
	NoCgroups bool

	// Without takes walls down. It is for the hostile self-test alone, which
	// runs such a backend inside of another sandbox; the zero value, all walls,
	// is what everything else uses.
	Without sandbox.Defences

	oldMounts bool   // for a test: see request
	device    string // for a test: in place of /dev/net/tun
	covers    int    // for a test, instead of maxCovers
}

// DefaultRootUID is outside the ranges that distributions give to people,
// services and subordinate ids of the first users.
const DefaultRootUID = 231072

const (
	keeperMarker = "assay-ns-keeper"

	defaultDisk   = 1 << 30
	defaultInodes = 1 << 20
	defaultPids   = 4096
	defaultFiles  = 65536
)

func refuse(name, detail, means, remedy string) error {
	return &doctor.Refusal{Finding: doctor.Finding{Name: name, Detail: detail, Means: means, Remedy: remedy}}
}

// wrongSystem is the answer of machines without these namespaces.
func wrongSystem() error {
	return refuse("operating system", fmt.Sprintf("this is %s/%s", runtime.GOOS, runtime.GOARCH),
		"the ns sandbox needs Linux on amd64, arm64, riscv64 or loong64",
		"run assay on such a machine, or choose another backend")
}
