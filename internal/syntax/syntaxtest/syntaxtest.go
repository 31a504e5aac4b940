// Package syntaxtest gives tests a parser. It skips a test, with the reason,
// where a grammar is neither in the cache nor to be fetched; it never gives a
// parser that parses less than the real one.
package syntaxtest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"assay/internal/syntax"
)

// Parser is a parser with the grammars of langs, or of all languages where
// none are named. Cache and registry are those of ASSAY_GRAMMARS and
// npm_config_registry, which only a test file may read; an empty cache is the
// user's own.
func Parser(t testing.TB, cache, registry string, langs ...syntax.Language) *syntax.Parser {
	t.Helper()
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Skipf("no cache for grammars: %v", err)
		}
		cache = filepath.Join(dir, "assay", "grammars")
	}
	if len(langs) == 0 {
		langs = syntax.Languages()
	}
	p, err := syntax.New(t.Context(), syntax.Config{Cache: cache, Registry: registry, Client: &http.Client{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if err := p.Ready(t.Context(), langs...); errors.Is(err, syntax.ErrNoGrammar) {
		t.Skipf("no grammar: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return p
}
