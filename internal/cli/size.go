package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// bytesFlag is a number of bytes as people write it: 500M, 1.5GB, 2GiB.
// Without an i units are powers of 1000.
type bytesFlag int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *bytesFlag) UnmarshalText(text []byte) error {
	s := strings.ToUpper(strings.TrimSpace(string(text)))
	num := strings.TrimRight(s, "BIKMGT")
	unit := strings.TrimSuffix(s[len(num):], "B")
	base := 1000.0
	if strings.HasSuffix(unit, "I") {
		unit, base = strings.TrimSuffix(unit, "I"), 1024
	}
	power := strings.Index("KMGT", unit) + 1
	if unit == "" {
		power = 0
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if err != nil || len(unit) > 1 || unit == "" && base != 1000 || n < 0 || math.IsNaN(n) || n*math.Pow(base, float64(power)) > 1<<62 {
		return fmt.Errorf("%q is no size: write 500M, 2G or 1GiB", text)
	}
	*f = bytesFlag(n * math.Pow(base, float64(power)))
	return nil
}
