package docker

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// containerSpec is what the engine is asked for.
type containerSpec struct {
	Image                                                         string
	Entrypoint, Cmd                                               []string
	OpenStdin, StdinOnce, AttachStdin, AttachStdout, AttachStderr bool
	User, WorkingDir                                              string
	Hostname                                                      string `json:",omitempty"`
	Labels                                                        map[string]string
	Healthcheck                                                   map[string][]string
	HostConfig                                                    hostConfig
	NetworkingConfig                                              *networking `json:",omitempty"`
}

type networking struct{ EndpointsConfig map[string]endpoint }

// endpoint is a container's place on a network, where it has these names.
type endpoint struct{ Aliases []string }

type hostConfig struct {
	AutoRemove      bool
	NetworkMode     string
	CapDrop, CapAdd []string
	SecurityOpt     []string
	LogConfig       map[string]string
	Mounts          []mount
	Memory          int64 `json:",omitempty"`
	MemorySwap      int64 `json:",omitempty"`
	NanoCpus        int64 `json:",omitempty"`
	PidsLimit       int64 `json:",omitempty"`
	Ulimits         []ulimit
	ExtraHosts      []string          `json:",omitempty"`
	DNS             []string          `json:"Dns,omitempty"`
	Tmpfs           map[string]string `json:",omitempty"`
	ShmSize         int64             `json:",omitempty"`
	Sysctls         map[string]string `json:",omitempty"`
}

type mount struct {
	Type, Target  string
	Source        string         `json:",omitempty"`
	ReadOnly      bool           `json:",omitempty"`
	VolumeOptions *volumeOptions `json:",omitempty"`
}

type volumeOptions struct {
	NoCopy bool              `json:",omitempty"`
	Labels map[string]string `json:",omitempty"`
}

type ulimit struct {
	Name       string
	Soft, Hard int64
}

// container is one that runs, and the connection that it lives as long as.
type container struct {
	b  *Backend
	id string
	io *attached
}

// start creates, connects to and starts a container.
func (b *Backend) start(ctx context.Context, name string, spec containerSpec) (*container, error) {
	q := url.Values{}
	if name != "" {
		q.Set("name", name)
	}
	var made struct {
		ID string `json:"Id"`
	}
	if err := b.api.call(ctx, "POST", "/containers/create", q, spec, &made); err != nil {
		return nil, fmt.Errorf("create container: %w", err)
	}
	c := &container{b: b, id: made.ID}
	var err error
	if c.io, err = b.api.attach(ctx, c.id); err == nil {
		err = b.api.call(ctx, "POST", "/containers/"+c.id+"/start", nil, nil, nil)
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = c.remove(clean) // the first error tells more
		return nil, fmt.Errorf("start container: %w", err)
	}
	return c, nil
}

// remove kills the container and returns when it is gone.
func (c *container) remove(ctx context.Context) error {
	if c.io != nil {
		c.io.Close()
	}
	err := c.b.api.call(ctx, "DELETE", "/containers/"+c.id, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
	if isStatus(err, 409) { // it is being removed: it ended with its connection
		err = c.b.api.call(ctx, "POST", "/containers/"+c.id+"/wait", url.Values{"condition": {"removed"}}, nil, nil)
	}
	if isStatus(err, 404) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove container: %w", err)
	}
	return nil
}
