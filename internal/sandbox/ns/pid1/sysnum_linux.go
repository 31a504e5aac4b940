//go:build linux && !amd64

package pid1

// The numbers of the generic table: arm64, riscv64, loong64.
const (
	sysMemfdCreate = 279
	sysSeccomp     = 277
)
