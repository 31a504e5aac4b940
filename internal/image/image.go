package image

import (
	"strings"
	"time"
)

// LayerID names a committed layer: "sha256:" and the hex digest of its manifest.
type LayerID string

// Short returns the first 12 hex digits, for people.
func (l LayerID) Short() string {
	h := strings.TrimPrefix(string(l), "sha256:")
	return h[:min(12, len(h))]
}

// ID names an image: the digest of its layer ids, binds and configuration.
type ID string

// HostPath and Path keep the two worlds apart in signatures: a file of this
// machine, and an absolute slash-separated path inside an image or sandbox.
type (
	HostPath string
	Path     string
)

// Image is a stack of layers and how to start in it.
type Image struct {
	ID     ID        `json:"id"`
	Name   string    `json:"name"`   // as the user knows it: "host", "local/base:1"
	Layers []LayerID `json:"layers"` // bottom first
	Binds  []Bind    `json:"binds,omitempty"`
	Config Config    `json:"config"`

	// Digests are "repository@sha256:…", by which registries and OCI layouts
	// know the image or the index it was chosen from. They find it like a name
	// and, like the platform, are no part of the ID.
	Digests  []string `json:"digests,omitempty"`
	Platform string   `json:"platform,omitempty"` // "linux/arm64/v8"; empty: this machine's
}

// Bind is a read-only directory or file of this machine that is part of an
// image: only the pseudo-image "host" has any.
type Bind struct {
	Source HostPath `json:"source"`
	Target Path     `json:"target"`
}

// Config is the part of an OCI image configuration that running needs.
type Config struct {
	Env        []string          `json:"env,omitempty"` // KEY=value
	Workdir    Path              `json:"workdir,omitempty"`
	User       string            `json:"user,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Cmd        []string          `json:"cmd,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`

	// What nothing here acts upon, kept for builds upon the image and for
	// those who get it exported.
	Ports       []string     `json:"ports,omitempty"`   // "80/tcp", sorted
	Volumes     []string     `json:"volumes,omitempty"` // as written, sorted
	Shell       []string     `json:"shell,omitempty"`   // of RUN, CMD and ENTRYPOINT in shell form
	StopSignal  string       `json:"stop_signal,omitempty"`
	OnBuild     []string     `json:"on_build,omitempty"` // instructions for builds upon it
	Healthcheck *Healthcheck `json:"healthcheck,omitempty"`
	Author      string       `json:"author,omitempty"`
}

// Healthcheck is Docker's: a Test of "NONE", "CMD" with arguments or
// "CMD-SHELL" with a line. Zero durations and retries mean Docker's defaults.
type Healthcheck struct {
	Test          []string      `json:"test,omitempty"`
	Interval      time.Duration `json:"interval,omitempty"`
	Timeout       time.Duration `json:"timeout,omitempty"`
	StartPeriod   time.Duration `json:"start_period,omitempty"`
	StartInterval time.Duration `json:"start_interval,omitempty"`
	Retries       int           `json:"retries,omitempty"`
}
