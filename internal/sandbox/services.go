package sandbox

import (
	"errors"
	"time"

	"assay/internal/image"
)

// Set is what stands beside a sandbox: services of its own that it reaches by
// name, on a network that nothing else is on. They start before Create returns
// and end with the sandbox.
//
// Snapshot, Reset, Kill and Peek are of the sandbox alone: its services run on,
// with all that was done to them. A sandbox made From a snapshot with a Set has
// new services; one made Beside another has that one's.
type Set struct {
	Main   Service // of the sandbox itself: names, hosts, order, volumes, files; what it runs is not looked at
	Beside []Service
}

// Service is one that runs beside a sandbox.
type Service struct {
	Name     string
	Image    image.Image
	Args     []string // program and arguments
	Env      []string // added to the image's
	Dir      image.Path
	User     string
	Hostname string
	Aliases  []string // further names
	Hosts    []string // "name:address" it knows besides
	After    []After
	Health   image.Healthcheck // without a Test: none
	Volumes  []Volume
	Files    []HostFile // put there before it starts
	Tmpfs    []image.Path
	Restart  Restart
	Limits   Limits
	ShmBytes int64 // of /dev/shm; 0: the backend's
	Sysctls  map[string]string
}

// After is a service that must come first.
type After struct {
	Service   string
	Condition Condition
}

// Condition is what is waited for.
type Condition int

const (
	_         Condition = iota
	Started             // its program runs
	Healthy             // its health check passes
	Completed           // its program has ended with 0
)

// Restart says when a service's program is started again.
type Restart string

const (
	RestartNever   Restart = ""
	RestartAlways  Restart = "always"
	RestartFailure Restart = "on-failure"
)

// Volume is storage that services of one set share. It begins with what the
// first image has at its place.
type Volume struct {
	Name     string // empty: the service's alone
	Target   image.Path
	ReadOnly bool
}

// HostFile is a file or directory of this machine that is copied.
type HostFile struct {
	Source image.HostPath
	Target image.Path
}

// Composed is implemented by sandboxes that can have services beside them.
type Composed interface {
	// Beside gives a service of the sandbox's Set.
	Beside(name string) (Neighbour, bool)
}

// Neighbour is a service that runs beside a sandbox.
type Neighbour interface {
	Starter
	Trees
	// Log is the end of what its program wrote.
	Log() []byte
}

// ErrUnhealthy: a service did not become what others wait for.
var ErrUnhealthy = errors.New("service not healthy")

// Defaults of Docker's health checks.
const (
	HealthInterval = 30 * time.Second
	HealthTimeout  = 30 * time.Second
	HealthRetries  = 3
)
