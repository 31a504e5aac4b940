package inlet

import (
	"errors"
	"net"
	"testing"
)

// What is handed over is accepted, as it is; after Close nothing is.
func TestInlet(t *testing.T) {
	l := New()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := Watch(ours)
	go l.Hand(c)
	got, err := l.Accept()
	if err != nil || got != net.Conn(c) {
		t.Fatalf("%v, %v", got, err)
	}
	select {
	case <-c.Closed():
		t.Error("closed too early")
	default:
	}
	got.Close()
	got.Close()
	<-c.Closed()
	l.Close()
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepted after the end: %v", err)
	}
	if l.Hand(c) {
		t.Error("taken after the end")
	}
}
