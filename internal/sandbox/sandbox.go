package sandbox

import (
	"context"
	"io"
	"net"
	"syscall"
	"time"

	"assay/internal/image"
)

// Backend makes sandboxes. Its methods may be called concurrently.
type Backend interface {
	// Capabilities says what the backend can do here and now; a test pins
	// every claim.
	Capabilities() Capabilities
	// Create makes a sandbox that is ready to Start commands. It fails at
	// once, naming the reason, for a spec that asks for what it cannot give.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Commit turns the dirty part of a snapshot (all that differs from the
	// layers its sandbox was created from) into one layer of the store. The
	// empty id means nothing differs. May be repeated, with the same answer.
	Commit(ctx context.Context, s Snapshot) (image.LayerID, error)
	// Close ends every sandbox and drops every snapshot.
	Close() error
}

// Dropper is implemented by backends that can free a snapshot before Close.
// Sandboxes that stand on it live on; the handle is of no use any more.
// Dropping it again does nothing.
type Dropper interface {
	Drop(s Snapshot) error
}

// Stepper is implemented by backends that can measure, each alone, the steps
// that their operations consist of: what of an operation is the kernel's time.
type Stepper interface {
	// Steps measures each step so many times.
	Steps(ctx context.Context, rounds int) ([]Step, error)
	// Needs says how often an operation, by its name in a benchmark, takes each
	// step; nil for one that is not known.
	Needs(operation string) map[string]int
}

// Step is a step's samples.
type Step struct {
	Name string
	Took []time.Duration
}

// Capabilities describe a backend as data.
type Capabilities struct {
	Name      string    // "ns", "docker", "fake"
	UIDModes  []UIDMode // in order of preference
	Snapshots bool
	Peek      bool
	TTY       bool
	Relays    bool
	Services  bool // Spec.Set
	ReadOnly  bool // Spec.ReadOnly
	Networks  []Network
	Limits    []string // "disk:tmpfs", "pids:rlimit", …: limit and what holds it
	Isolation string   // one honest line: what it does not protect against
}

// Sandbox is one live sandbox. Methods may be called concurrently except that
// Snapshot, Reset and Close wait for none of the others: callers end their
// processes first or accept that they are killed.
type Sandbox interface {
	Starter
	Trees
	Brancher
	// Kill ends every process in the sandbox but leaves its tree; the sandbox
	// can Start again afterwards. It returns when all of them are gone.
	Kill(ctx context.Context) error
	// Close ends everything and frees everything. It may be repeated.
	Close() error
}

// Starter starts programs.
type Starter interface {
	// Start runs cmd. An error means it did not start (no such program is
	// ErrNotStarted); ctx ends the wait for the start, not the process.
	Start(ctx context.Context, cmd Command) (Process, error)
}

// Trees moves trees between host and sandbox, as tar streams. Both work while
// processes run. Paths are resolved inside the sandbox's root.
type Trees interface {
	// Put unpacks the tar stream below dst, which is made if missing (0755).
	// Modes are kept; owners are the sandbox's root unless the uid mode can
	// hold others. Entries that would leave dst are an error and nothing
	// outside dst is touched.
	Put(ctx context.Context, dst image.Path, tar io.Reader) error
	// Get writes src as a tar stream: a directory's content relative to it, a
	// file as one entry of its base name. Links are entries, never followed;
	// devices and sockets are left out, and below mounts of the host what the
	// sandbox's root may not read. A missing src, and one to which links lead in
	// circles or into the kernel, is fs.ErrNotExist, one larger than maxBytes (0:
	// no cap) is ErrTooLarge. With [HeadOnly] for maxBytes it is one entry, of
	// src itself and its base name, without content: a file's size is 0, and
	// a device or socket is an entry of tar.TypeChar.
	Get(ctx context.Context, src image.Path, tar io.Writer, maxBytes int64) error
}

// HeadOnly asks Get for an entry without what it holds.
const HeadOnly = -1

// Brancher freezes and forks.
type Brancher interface {
	// Snapshot kills every process, freezes the tree, and lets the sandbox go
	// on upon it. The handle is there at once; content ids come with Commit.
	Snapshot(ctx context.Context) (Snapshot, error)
	// Reset kills every process and puts the tree back to s, or to the state
	// after Create for the empty Snapshot.
	Reset(ctx context.Context, s Snapshot) error
	// Peek copies the tree of the running sandbox without ending anything.
	// Files being written may be torn.
	Peek(ctx context.Context) (Snapshot, error)
}

// Snapshot is a random handle of a frozen tree, valid until its backend closes
// or it is dropped. Fork it by Spec.From.
type Snapshot string

// UIDMode says which user ids exist inside.
type UIDMode string

const (
	UIDAuto   UIDMode = ""       // the backend's first
	UIDSingle UIDMode = "single" // root only; owners of files cannot be changed
	UIDSub    UIDMode = "subid"  // subordinate ids of an ordinary user
	UIDRoot   UIDMode = "root"   // a private range, made by real root
)

// Network says what a sandbox can reach.
type Network string

const (
	NetNone      Network = "none"      // loopback of its own
	NetAllowlist Network = "allowlist" // Spec.Egress's proxy at ProxyPort, and its DNS
	NetFull      Network = "full"      // an interface whose packets Spec.Egress carries
)

// Spec describes a sandbox. The zero value of every field but Image is usable.
type Spec struct {
	Image  image.Image     // layers, binds and defaults
	Extra  []image.LayerID // layers on top of the image's, e.g. a workspace diff
	From   Snapshot        // start from this frozen tree; Image must be its source's
	Mounts []Mount
	// ReadOnly are paths of the tree, files and directories with all below them,
	// that no program of the sandbox can change, remove or rename, and no Put:
	// each is a read-only mount of itself. One that is missing when the tree is
	// made, or is a link, stays what it is. A directory above one is no mount:
	// it can be renamed with all that is in it.
	ReadOnly []image.Path
	Relays   []Relay
	Limits   Limits
	UID      UIDMode
	Network  Network // zero means NetNone
	Egress   Egress  // where the other networks lead to; needed for them, unused by NetNone
	Hostname string  // zero means "assay"
	Service  string  // zero means "main", the only one for now
	Set      *Set    // services beside it; nil: none
	Beside   Sandbox // share the Set of this one, which steps back from its network; nil: none
}

// Mount adds a layer, a host directory, or an empty directory in memory.
// Exactly one source is set.
type Mount struct {
	Layer    image.LayerID
	Host     image.HostPath
	Memory   int64 // bytes that the directory may hold; negative: as many as the backend gives
	Target   image.Path
	ReadOnly bool
}

// Relay makes a port of the sandbox's loopback lead to a handler on the host.
type Relay struct {
	Port   int
	Handle func(ctx context.Context, c net.Conn) // owns c; called once per connection
}

// Limits cap a sandbox. Zero means the backend's default, negative means none.
// Which were really held is in Report.
type Limits struct {
	DiskBytes int64
	Inodes    int64
	Pids      int64
	OpenFiles int64
	MemBytes  int64
	CPUs      float64
}

// Held is implemented by sandboxes that know which limits they enforce.
type Held interface {
	// Held lists limits as "disk:tmpfs" (what held by what) and those asked
	// for that nothing here holds.
	Held() (held, unheld []string)
}

// Command is a program to start. Args[0] is looked up in PATH of Env.
type Command struct {
	Args  []string
	Env   []string   // added to the image's, later wins
	Dir   image.Path // empty: the image's workdir, else "/"
	User  string     // empty: the image's; a uid, a name, or "uid:gid"; with one user id it is root all the same
	Stdin bool       // false: /dev/null
	TTY   *Size      // nil: pipes; with a terminal, Stderr is empty
}

// Size is a terminal's, in characters.
type Size struct{ Rows, Cols uint16 }

// Process is a started program. The caller reads Stdout and Stderr to their
// ends, then Waits, then Closes.
type Process interface {
	Stdin() io.WriteCloser // nil unless Command.Stdin or TTY
	Stdout() io.Reader
	Stderr() io.Reader
	// Signal sends to the program's whole session.
	Signal(ctx context.Context, sig syscall.Signal) error
	// Wait returns when the program itself has ended, whatever its children do.
	Wait(ctx context.Context) (Exit, error)
	// Close kills the program's session if it lives and frees the streams.
	Close() error
}

// Exit is how a program ended.
type Exit struct {
	Code   int            // 128+signal when killed by one
	Signal syscall.Signal // 0 unless killed by one
	CPU    time.Duration  // of the program and its waited-for children
	MaxRSS int64          // bytes
	// OutOfMemory: processes of the sandbox, this one or others, were ended for
	// its memory limit while the program ran.
	OutOfMemory bool
}
