package slow

import (
	"testing"
	"time"
)

func TestSlow(t *testing.T) { time.Sleep(time.Minute) }
