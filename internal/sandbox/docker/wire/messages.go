package wire

import "syscall"

// Names of what the host asks the first process of a container for. A request
// is the JSON that a stream is opened with; replies are JSON, one a line.
const (
	OpPipe   = "pipe"   // a stream of a program to come; named by its id in Start
	OpStart  = "start"  // reply Started, then Exited when the program ends
	OpSignal = "signal" // reply
	OpClose  = "close"  // ends a program's streams and kills its session if it lives; reply
	OpKill   = "kill"   // ends every program; Request.Quiet also breaks off every put; reply
	OpPut    = "put"    // data: a tar stream; reply when it is unpacked
	OpGet    = "get"    // data on Pipes[0]: a tar stream; then a reply
	OpScan   = "scan"   // replies Entry by Entry, then a reply with Last
	OpFetch  = "fetch"  // data: paths, each ended by a zero byte; data on Pipes[0]: a tar stream; then a reply
	OpConn   = "conn"   // from inside: a connection to a relayed port
)

// HeadOnly as a get's Max: one entry, without what it holds.
const HeadOnly = -1

// Request is what a stream is opened with.
type Request struct {
	Op    string   `json:"op"`
	Pipes []uint32 `json:"pipes,omitempty"` // start: stdin, stdout, stderr; 0: none

	// start
	Args []string `json:"args,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	User string   `json:"user,omitempty"`
	TTY  bool     `json:"tty,omitempty"`
	Rows uint16   `json:"rows,omitempty"`
	Cols uint16   `json:"cols,omitempty"`

	Program int            `json:"program,omitempty"` // signal, close: as Started said
	Signal  syscall.Signal `json:"signal,omitempty"`
	Quiet   bool           `json:"quiet,omitempty"`
	Path    []byte         `json:"path,omitempty"` // put, get
	Max     int64          `json:"max,omitempty"`
	Since   int64          `json:"since,omitempty"` // scan: ns since 1970
	Skip    [][]byte       `json:"skip,omitempty"`  // scan: paths that are no part of the tree
	Port    int            `json:"port,omitempty"`  // conn
}

// What went wrong, in words that both sides know.
const (
	FaultNotStarted = "not started"
	FaultNotExist   = "not exist"
	FaultTooLarge   = "too large"
	FaultDone       = "process done"
)

// Reply answers a request.
type Reply struct {
	Error string `json:"error,omitempty"`
	Fault string `json:"fault,omitempty"`

	Program int    `json:"program,omitempty"` // start
	Exited  *Exit  `json:"exited,omitempty"`
	Entry   *Entry `json:"entry,omitempty"`
	Now     int64  `json:"now,omitempty"` // of the machine's clock, ns since 1970
	// Boot is the time at which that clock says the machine started: it moves when the clock is set.
	Boot int64 `json:"boot,omitempty"`
}

// Exit is how a program ended.
type Exit struct {
	Status uint32 `json:"status"` // as wait gives it
	CPU    int64  `json:"cpu"`    // ns
	MaxRSS int64  `json:"max_rss"`
	Memory bool   `json:"memory,omitempty"` // something was ended for the memory limit meanwhile
}

// Entry is one name that may differ from the image, or, when Names is set, a
// directory whose names may.
type Entry struct {
	Path   []byte            `json:"path"`
	Kind   string            `json:"kind"` // of image.Type
	Mode   uint32            `json:"mode"`
	UID    int               `json:"uid"`
	GID    int               `json:"gid"`
	Size   int64             `json:"size,omitempty"`
	Time   int64             `json:"time"` // modification, ns
	Link   []byte            `json:"link,omitempty"`
	Digest string            `json:"digest,omitempty"`
	Inode  [2]uint64         `json:"inode,omitzero"` // of what has several names
	Xattrs map[string][]byte `json:"xattrs,omitempty"`
	New    bool              `json:"new,omitempty"` // a directory that hides the image's
	Names  [][]byte          `json:"names,omitempty"`
}
