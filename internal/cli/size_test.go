package cli

import "testing"

func TestBytesFlag(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "17": 17, "500M": 500e6, "2g": 2e9, "1.5GB": 1.5e9, "1GiB": 1 << 30, "3Ki": 3072, "1 T": 1e12, "20b": 20,
		"": -1, "G": -1, "1X": -1, "1MM": -1, "-1": -1, "NaN": -1, "9e99T": -1, "1I": -1, "1iB": -1, "inf": -1,
	} {
		var f bytesFlag
		err := f.UnmarshalText([]byte(text))
		if (err != nil) != (want < 0) || err == nil && int64(f) != want {
			t.Errorf("%q: %d, %v; want %d", text, f, err, want)
		}
	}
}
