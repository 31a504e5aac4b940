package green

import "testing"

func TestSum(t *testing.T) {}

func TestTable(t *testing.T) {
	t.Run("one_and_two", func(t *testing.T) {})
}
