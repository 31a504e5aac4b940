package pid1

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Message{
			Kind: Kind(rapid.Byte().Draw(t, "kind")), ID: rapid.Uint32().Draw(t, "id"),
			Nums: rapid.SliceOf(rapid.Int64()).Draw(t, "nums"), Strs: rapid.SliceOf(rapid.String()).Draw(t, "strs"),
		}
		if len(m.Nums) == 0 {
			m.Nums = nil
		}
		if len(m.Strs) == 0 {
			m.Strs = nil
		}
		got, err := Decode(m.Encode())
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%+v became %+v, %v", m, got, err)
		}
	})
}

// The numbers are those of encoding/binary.
func TestUvarint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "v")
		if !bytes.Equal(appendUvarint(nil, v), binary.AppendUvarint(nil, v)) {
			t.Fatalf("%d", v)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(Message{Kind: Start, ID: 7, Nums: []int64{-1, 1 << 40}, Strs: []string{"/", "sh"}}.Encode())
	f.Add([]byte{})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{1, 1, 0xff, 0xff, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(m.Encode())
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}
