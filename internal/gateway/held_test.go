package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Bodies in memory are bounded for all requests of a session together, and the
// bound is free again when they are over.
func TestBodiesTogether(t *testing.T) {
	arrived, on := make(chan bool), make(chan bool)
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- true
		<-on
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	s := opened(t, gateway(t, Config{Limits: Limits{Request: 4000, Held: 5000}}), SessionConfig{Upstream: up})
	url := s.BaseAt(relayed(t, s)) + "/v1/chat/completions"
	large := `{"messages":[],"x":"` + strings.Repeat("a", 3000) + `"}`
	first := make(chan int)
	go func() {
		status, _ := post(t, url, s.Key(), large)
		first <- status
	}()
	<-arrived
	if status, got := post(t, url, s.Key(), large); status != 429 || !strings.Contains(got, "too large together") {
		t.Errorf("the second: %d %s", status, got)
	}
	if status, got := post(t, url, s.Key(), large+large); status != 429 && status != 413 {
		t.Errorf("one beyond the limit of a body: %d %s", status, got)
	}
	on <- true
	if status := <-first; status != 200 {
		t.Errorf("the first: %d", status)
	}
	for begin := time.Now(); s.held.Load() > 0; time.Sleep(time.Millisecond) { // an answer is there before its call is over
		if time.Since(begin) > 30*time.Second {
			t.Fatal("what the first held is held for good")
		}
	}
	go func() { <-arrived; on <- true }()
	if status, got := post(t, url, s.Key(), large); status != 200 {
		t.Errorf("afterwards: %d %s", status, got)
	}
}

// One request too many at once is told so; the others go on.
func TestRequestsAtOnce(t *testing.T) {
	arrived, on := make(chan bool), make(chan bool)
	up := provider(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- true
		<-on
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})
	s := opened(t, gateway(t, Config{Limits: Limits{InFlight: 2}}), SessionConfig{Upstream: up})
	url := s.BaseAt(relayed(t, s)) + "/v1/chat/completions"
	done := make(chan int)
	for range 2 {
		go func() {
			status, _ := post(t, url, s.Key(), question)
			done <- status
		}()
		<-arrived
	}
	if status, _ := post(t, url, s.Key(), question); status != 429 {
		t.Errorf("the third: %d", status)
	}
	for range 2 {
		on <- true
		if status := <-done; status != 200 {
			t.Errorf("one of two: %d", status)
		}
	}
}
