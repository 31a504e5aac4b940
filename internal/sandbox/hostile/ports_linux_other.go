//go:build linux && !amd64

package hostile

// sysPorts is a call that there is on no such machine: it has no ports.
const sysPorts = 1 << 16
