package image

import (
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// configOf takes over what a foreign configuration says about running.
func configOf(c *v1.ConfigFile) Config {
	o := c.Config
	cf := Config{Env: o.Env, User: o.User, Entrypoint: o.Entrypoint, Cmd: o.Cmd, Labels: maps.Clone(o.Labels),
		Ports: slices.Sorted(maps.Keys(o.ExposedPorts)), Volumes: slices.Sorted(maps.Keys(o.Volumes)),
		Shell: o.Shell, StopSignal: o.StopSignal, OnBuild: o.OnBuild, Author: c.Author}
	if d := o.WorkingDir; d != "" {
		cf.Workdir = Path("/" + clean(d))
	}
	if h := o.Healthcheck; h != nil {
		cf.Healthcheck = &Healthcheck{Test: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries}
	}
	return cf
}

// OCI is the configuration in the form that other tools read.
func (c Config) OCI() v1.Config {
	o := v1.Config{Env: c.Env, User: c.User, Entrypoint: c.Entrypoint, Cmd: c.Cmd, Labels: maps.Clone(c.Labels),
		WorkingDir: string(c.Workdir), Shell: c.Shell, StopSignal: c.StopSignal, OnBuild: c.OnBuild,
		ExposedPorts: set(c.Ports), Volumes: set(c.Volumes)}
	if h := c.Healthcheck; h != nil {
		o.Healthcheck = &v1.HealthConfig{Test: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries}
	}
	return o
}

func set(names []string) map[string]struct{} {
	if len(names) == 0 {
		return nil
	}
	m := map[string]struct{}{}
	for _, n := range names {
		m[n] = struct{}{}
	}
	return m
}
