package gateway

import (
	"io"
	"net/http"
	"testing"
	"time"

	"assay/internal/model"
)

// A provider that is silent while a trial's time runs out is to blame; one that
// answers, or failed before, keeps its own name.
func TestSilenceAtTheDeadline(t *testing.T) {
	answer := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
	}
	for name, c := range map[string]struct {
		first func(w http.ResponseWriter)
		work  time.Duration // between the first answer and the second question
		want  model.ErrorKind
	}{
		"silent":               {nil, 0, model.ErrStalled},
		"silent for a moment":  {answer, 2 * time.Second, ""},
		"failed, then stopped": {func(w http.ResponseWriter) { w.WriteHeader(500) }, 2 * time.Second, model.ErrServer},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			reached := make(chan bool, 1)
			up := provider(t, func(w http.ResponseWriter, r *http.Request) {
				if n++; n == 1 && c.first != nil {
					c.first(w)
					return
				}
				reached <- true
				<-r.Context().Done()
			})
			s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up})
			base := s.BaseAt(relayed(t, s)) + "/v1/chat/completions"
			if c.first != nil {
				post(t, base, s.Key(), question)
			}
			time.Sleep(c.work)
			done := make(chan bool)
			go func() { defer close(done); post(t, base, s.Key(), question) }()
			<-reached
			if c.first == nil {
				time.Sleep(shortSilence)
			}
			time.Sleep(300 * time.Millisecond)
			s.Stop(Stop{Kind: model.ErrDeadline, Message: "time is up"})
			<-done
			_, sum, _ := ended(t, s)
			got := model.ErrorKind("")
			if sum.LastError != nil {
				got = sum.LastError.Kind
			}
			if got != c.want {
				t.Errorf("the last failure is %q, want %q", got, c.want)
			}
		})
	}
}

// A provider in this process ends its stream when it is cut off: that is no
// answer that broke off.
func TestSilenceOfAHandler(t *testing.T) {
	reached := make(chan bool, 1)
	up := &Upstream{Name: "m", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n")
		w.(http.Flusher).Flush()
		reached <- true
		<-r.Context().Done()
	})}
	s := opened(t, gateway(t, Config{}), SessionConfig{Upstream: up})
	base := s.BaseAt(relayed(t, s)) + "/v1/chat/completions"
	done := make(chan bool)
	go func() { defer close(done); post(t, base, s.Key(), question) }()
	<-reached
	time.Sleep(shortSilence + 500*time.Millisecond)
	s.Stop(Stop{Kind: model.ErrDeadline, Message: "time is up"})
	<-done
	if _, sum, _ := ended(t, s); sum.LastError == nil || sum.LastError.Kind != model.ErrStalled {
		t.Errorf("the last failure is %+v", sum.LastError)
	}
}
