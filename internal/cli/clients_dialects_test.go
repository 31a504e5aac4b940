package cli

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"assay/internal/model"
	"assay/internal/model/scripted"
)

// Each client that ASSAY_CLIENTS names solves the task with servers that speak
// one dialect each: its own, and all that its words are translated to.
func TestClientsInEveryDialect(t *testing.T) {
	if os.Getenv("ASSAY_CLIENTS") == "" {
		t.Skip("ASSAY_CLIENTS names no agents: codex and claude-code over chat are tested by TestClientsOverChat")
	}
	b := newClientBed(t)
	for _, agent := range clients() {
		for _, d := range model.Dialects() {
			t.Run(agent+" over "+string(d), func(t *testing.T) {
				b.t = t
				f, err := scripted.Parse("hello.yaml", []byte("dialects: ["+string(d)+"]\n"+scriptFor(agent)))
				if err != nil {
					t.Fatal(err)
				}
				server, err := scripted.New(f)
				if err != nil {
					t.Fatal(err)
				}
				srv := httptest.NewServer(server)
				defer srv.Close()
				b.write("models.toml", "[models.far]\nurl = \""+srv.URL+"\"\ndialects = [\""+string(d)+"\"]\n")
				got := b.run(string(d)+"-"+strings.ReplaceAll(agent, "/", "-"), agent, "far")
				solved(t, got)
				equalsTraffic(t, got)
				for _, r := range server.Requests() {
					if r.Dialect != d {
						t.Errorf("a server that speaks %s was asked %s", d, r.Path)
					}
				}
			})
		}
	}
}
