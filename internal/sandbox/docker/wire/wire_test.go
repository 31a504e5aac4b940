package wire

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

func pair(t testing.TB, accept func(*Stream, []byte)) (*Conn, *Conn) {
	a, b := net.Pipe()
	one, two := New(a, a, true, nil), New(b, b, false, accept)
	var wg sync.WaitGroup
	wg.Go(func() { _ = one.Serve() })
	wg.Go(func() { _ = two.Serve() })
	t.Cleanup(func() { a.Close(); b.Close(); wg.Wait() })
	return one, two
}

// Many streams echo more than a window at once, while one that nobody reads
// holds none of them up.
func TestStreams(t *testing.T) {
	one, _ := pair(t, func(s *Stream, what []byte) {
		if string(what) == "deaf" {
			return
		}
		go func() { io.Copy(s, s); s.CloseWrite() }()
	})
	deaf, err := one.Open([]byte("deaf"))
	if err != nil {
		t.Fatal(err)
	}
	stuck := make(chan error, 1)
	go func() { _, err := deaf.Write(make([]byte, 2*window)); stuck <- err }()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := one.Open([]byte("echo"))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Reset()
			want := bytes.Repeat([]byte{byte(i)}, 3*window+i)
			go func() { s.Write(want); s.CloseWrite() }()
			got, err := io.ReadAll(s)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes came back: %v", len(got), len(want), err)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-stuck:
		t.Fatalf("more than a window was taken: %v", err)
	default:
	}
	deaf.Reset()
	select {
	case err := <-stuck:
		if err == nil {
			t.Error("a write to what was given up succeeded")
		}
	case <-time.After(10 * time.Second):
		t.Error("a writer hangs")
	}
}

// Whatever a hostile end sends, this one ends without a panic and holds no
// more than its windows.
func FuzzServe(f *testing.F) {
	var seed bytes.Buffer
	c := New(nil, &seed, true, nil)
	s, _ := c.Open([]byte(`{"op":"conn"}`))
	s.Write([]byte("hello"))
	s.CloseWrite()
	f.Add(seed.Bytes())
	f.Add([]byte{kindData, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var got []*Stream
		c := New(bytes.NewReader(b), io.Discard, false, func(s *Stream, _ []byte) { got = append(got, s) })
		_ = c.Serve()
		for _, s := range got {
			if n, _ := io.Copy(io.Discard, s); n > window {
				t.Errorf("%d bytes in a window", n)
			}
		}
	})
}
