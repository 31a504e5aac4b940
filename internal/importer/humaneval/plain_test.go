package humaneval

import (
	"os/exec"
	"strings"
	"testing"
)

// The codec between judge and candidate: every plain value comes back with its
// exact type, nothing else can be encoded, and no bytes make the decoder do
// anything but return plain data or refuse.
func TestPlainCodec(t *testing.T) {
	for _, seed := range []string{"1", "20261121"} {
		out, err := exec.Command(python(t), "-I", "-B", "testdata/plain_check.py", "files/tests", seed).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "checked" {
			t.Errorf("seed %s: %v\n%s", seed, err, out)
		}
	}
}
