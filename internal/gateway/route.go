package gateway

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"assay/internal/model"
)

// Names of calls that are not part of the work; [Call.Side].
const (
	SideProbe  = "probe"          // HEAD and GET that ask whether somebody is there
	SideModels = "models"         // the list of models
	SideCount  = "count"          // a count of tokens
	SideTitle  = "title"          // a title for the conversation
	SideCommit = "commit-message" // aider's second question
)

// route is what a request's path means.
type route struct {
	dialect model.Dialect
	side    string // SideProbe, SideModels, SideCount, or empty
	path    string // to post to, as the dialect's own provider has it
	model   string // gemini names it in the path
	stream  bool   // gemini says so in the path
	unknown bool
}

// routeOf reads the path of a request without its session. Version prefixes
// are optional and may come twice: agents differ in whether the base URL that
// they are given has one.
func routeOf(method, path string, h http.Header) route {
	path = strings.TrimSuffix(path, "/")
	for {
		rest, ok := cutPrefixes(path, "/v1", "/v1beta", "/v1alpha", "/openai", "/api")
		if !ok {
			break
		}
		path = rest
	}
	if rest, ok := strings.CutPrefix(path, "/deployments/"); ok { // Azure's clients
		if _, tail, ok := strings.Cut(rest, "/"); ok {
			path = "/" + tail
		}
	}
	if method != http.MethodPost {
		return probe(method, path, h)
	}
	switch path {
	case "/chat/completions":
		return route{dialect: model.Chat, path: "/v1" + path}
	case "/responses":
		return route{dialect: model.Responses, path: "/v1" + path}
	case "/messages":
		return route{dialect: model.Messages, path: "/v1" + path}
	case "/messages/count_tokens":
		return route{dialect: model.Messages, path: "/v1" + path, side: SideCount}
	}
	if rest, ok := cutPrefixes(path, "/models", "/tunedModels"); ok {
		rest = strings.TrimPrefix(rest, "/")
		at := strings.LastIndexByte(rest, ':') // names of models hold colons, too
		name, verb, ok := rest[:max(at, 0)], rest[at+1:], at >= 0
		r := route{dialect: model.Gemini, path: "/v1beta" + path, model: name, stream: verb == "streamGenerateContent"}
		switch {
		case ok && verb == "countTokens":
			r.side = SideCount
			return r
		case ok && (verb == "generateContent" || r.stream):
			return r
		}
	}
	return route{dialect: guessDialect(h), path: path, unknown: true}
}

func probe(method, path string, h http.Header) route {
	r := route{dialect: guessDialect(h), path: path, side: SideProbe}
	if method != http.MethodGet && method != http.MethodHead {
		r.unknown = true
		return r
	}
	switch {
	case path == "/models" || strings.HasPrefix(path, "/models/"):
		r.side = SideModels
	case path == "" || path == "/hello" || method == http.MethodHead:
	default:
		r.unknown = true
	}
	return r
}

// guessDialect of a request whose path says nothing.
func guessDialect(h http.Header) model.Dialect {
	switch {
	case h.Get("Anthropic-Version") != "" || h.Get("X-Api-Key") != "":
		return model.Messages
	case h.Get("X-Goog-Api-Key") != "":
		return model.Gemini
	}
	return model.Chat
}

// cutPrefixes cuts the first of some whole path elements that path begins with.
func cutPrefixes(path string, all ...string) (string, bool) {
	for _, p := range all {
		if rest, ok := strings.CutPrefix(path, p); ok && (rest == "" || rest[0] == '/') {
			return rest, true
		}
	}
	return path, false
}

// sessionPath splits /s/ID/rest.
func sessionPath(p string) (id, rest string, ok bool) {
	p, ok = strings.CutPrefix(p, "/s/")
	if !ok {
		return "", "", false
	}
	id, rest, _ = strings.Cut(p, "/")
	return id, "/" + rest, true
}

// keysOf are all keys that a request carries, in whichever place.
func keysOf(r *http.Request) []string {
	var all []string
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
		all = append(all, r.Header.Values(name)...)
	}
	for _, v := range r.Header.Values("Authorization") {
		if scheme, key, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
			all = append(all, strings.TrimSpace(key))
		} else {
			all = append(all, v)
		}
	}
	return append(all, r.URL.Query()["key"]...)
}

// holds reports whether every key that a request carries, and at least one, is
// this one.
func holds(r *http.Request, key string) bool {
	all := keysOf(r)
	same := 1
	for _, k := range all {
		same &= subtle.ConstantTimeCompare([]byte(k), []byte(key))
	}
	return len(all) > 0 && same == 1
}

// outHeader is what of an agent's header goes on to the provider. The rest,
// its key before all, stays here.
func outHeader(in http.Header) http.Header {
	out := http.Header{}
	for name, v := range in {
		l := strings.ToLower(name)
		switch {
		case l == "accept" || l == "content-type" || l == "user-agent" || l == "openai-beta" || l == "x-goog-api-client",
			strings.HasPrefix(l, "anthropic-"), strings.HasPrefix(l, "x-stainless-"):
			out[name] = v
		}
	}
	return out
}

// outQuery is what of an agent's query goes on to the provider.
func outQuery(in url.Values) url.Values {
	out := url.Values{}
	for _, k := range []string{"alt", "beta"} {
		if v, ok := in[k]; ok {
			out[k] = v
		}
	}
	return out
}

// backHeader is what of a provider's header goes back to the agent: nothing
// that concerns the connection, or the account that pays.
func backHeader(to, from http.Header, secrets secrets) {
	for name, v := range from {
		l := strings.ToLower(name)
		switch {
		case l == "content-length" || l == "connection" || l == "keep-alive" || l == "transfer-encoding" || l == "te" ||
			l == "trailer" || l == "upgrade" || l == "proxy-authenticate" || l == "set-cookie" || l == "alt-svc" || l == "server",
			strings.HasPrefix(l, "strict-transport"), strings.Contains(l, "organization"), strings.HasPrefix(l, "openai-project"):
		default:
			for _, one := range v {
				to.Add(name, secrets.maskString(one))
			}
		}
	}
}

// clientSession is the agent's own name of the conversation.
func clientSession(h http.Header) string {
	for _, name := range []string{"X-Claude-Code-Session-Id", "Thread-Id", "Session-Id", "X-Session-Id", "X-Session-Affinity"} {
		if v := h.Get(name); v != "" {
			return clip(v, 128)
		}
	}
	return ""
}

func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
