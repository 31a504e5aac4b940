package syntax

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	stdruntime "runtime"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
)

const (
	maxNodes = 4 << 20
	maxDepth = 4000 // of nesting; what people write stays below 200

	keepBelow = 96 << 20 // bytes of memory above which a machine is not used again
)

// Config says where grammars are and what a parse may cost.
type Config struct {
	// Cache is the directory for grammars, and for what they are compiled to.
	Cache string
	// Registry is the address of an npm registry; empty: the public one.
	Registry string
	// Client fetches what the cache lacks; nil: nothing is fetched.
	Client *http.Client

	MaxBytes int           // of a file; 0: 2 MiB
	MaxTime  time.Duration // for one file; 0: 20 s
	Parallel int           // parses at once; 0: one for each processor
}

// ErrTooBig and ErrTooLong say that a file is beyond the limits of a parse.
var (
	ErrTooBig  = errors.New("too big to parse")
	ErrTooLong = errors.New("the parse took too long")
)

// Parser parses all languages; it is safe for concurrent use. A grammar is
// read, and where need be fetched, when its language is first asked for.
type Parser struct {
	config  Config
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	slots   chan struct{}

	loading sync.Mutex // one grammar is fetched and compiled at a time
	modules map[string]*compiled

	mu     sync.Mutex
	idle   map[Language][]*machine
	closed bool
}

// compiled is a module's code, and what it wants of its environment.
type compiled struct {
	code                 wazero.CompiledModule
	memory, align, table uint32
}

// New makes a parser. It reads nothing yet; Ready does.
func New(ctx context.Context, c Config) (*Parser, error) {
	if c.Cache == "" {
		return nil, errors.New("a parser needs a directory for its grammars")
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 2 << 20
	}
	if c.MaxTime == 0 {
		c.MaxTime = 20 * time.Second
	}
	if c.Parallel <= 0 {
		c.Parallel = stdruntime.GOMAXPROCS(0)
	}
	p := &Parser{config: c, cache: compilationCache(filepath.Join(c.Cache, "compiled")), slots: make(chan struct{}, c.Parallel),
		modules: map[string]*compiled{}, idle: map[Language][]*machine{}}
	p.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(p.cache))
	if err := host(ctx, p.runtime); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// compilationCache keeps compiled code on disk where that can be written; it
// only saves half a second.
func compilationCache(dir string) wazero.CompilationCache {
	if err := os.MkdirAll(dir, 0o755); err == nil {
		if f, err := os.CreateTemp(dir, ".writable-*"); err == nil {
			f.Close()
			os.Remove(f.Name())
			if c, err := wazero.NewCompilationCacheWithDir(dir); err == nil {
				return c
			}
		}
	}
	return wazero.NewCompilationCache()
}

// Close gives back what the parser holds. No parse may be going on.
func (p *Parser) Close() error {
	p.mu.Lock()
	p.closed = true
	p.idle = nil
	p.mu.Unlock()
	ctx := context.Background()
	return errors.Join(p.runtime.Close(ctx), p.cache.Close(ctx))
}

// Ready makes sure of the languages' grammars, so that a later parse neither
// fetches nor compiles.
func (p *Parser) Ready(ctx context.Context, langs ...Language) error {
	for _, l := range langs {
		m, err := p.take(ctx, l)
		if err != nil {
			return err
		}
		p.give(l, m)
	}
	return nil
}

// Parse parses a file. A text with faults in it has a tree too, with Error
// set where they are. The causes of errors: ErrTooBig, ErrTooLong, ErrNoGrammar,
// the context's.
func (p *Parser) Parse(ctx context.Context, lang Language, src []byte) (*Tree, error) {
	if len(src) > p.config.MaxBytes {
		return nil, fmt.Errorf("%d bytes of %s: %w", len(src), lang, ErrTooBig)
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m, err := p.take(ctx, lang)
	if err != nil {
		return nil, err
	}
	w := &work{source: read(src), deadline: time.Now().Add(p.config.MaxTime)}
	root, err := m.run(context.WithValue(ctx, workKey{}, w), w)
	if err != nil {
		m.close(context.WithoutCancel(ctx))
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("parse %d bytes of %s: %w", len(src), lang, err)
	}
	p.give(lang, m)
	return &Tree{Language: lang, Source: src, Root: root}, nil
}

// take is an idle machine of a language, or a new one.
func (p *Parser) take(ctx context.Context, lang Language) (*machine, error) {
	g, ok := grammarOf(lang)
	if !ok {
		return nil, fmt.Errorf("no grammar for the language %q", lang)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errors.New("the parser is closed")
	}
	if n := len(p.idle[lang]); n > 0 {
		m := p.idle[lang][n-1]
		p.idle[lang] = p.idle[lang][:n-1]
		p.mu.Unlock()
		return m, nil
	}
	p.mu.Unlock()
	return p.build(ctx, g)
}

func (p *Parser) give(lang Language, m *machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || m.memory.Size() > keepBelow {
		m.close(context.Background())
		return
	}
	p.idle[lang] = append(p.idle[lang], m)
}

// compiled is an artefact's code.
func (p *Parser) compiled(ctx context.Context, a artefact) (*compiled, error) {
	p.loading.Lock()
	defer p.loading.Unlock()
	if c := p.modules[a.key()]; c != nil {
		return c, nil
	}
	b, err := p.config.load(ctx, a)
	if err != nil {
		return nil, err
	}
	c := &compiled{}
	var ok bool
	if c.memory, c.align, c.table, ok = sizes(b); !ok {
		return nil, fmt.Errorf("%s is no module to be linked", a.key())
	}
	if c.code, err = p.runtime.CompileModule(ctx, b); err != nil {
		return nil, fmt.Errorf("compile %s: %w", a.key(), err)
	}
	p.modules[a.key()] = c
	return c, nil
}

// compileOwn compiles a module of link.go, once.
func (p *Parser) compileOwn(ctx context.Context, b []byte) (*compiled, error) {
	p.loading.Lock()
	defer p.loading.Unlock()
	key := sum(b)
	if c := p.modules[key]; c != nil {
		return c, nil
	}
	code, err := p.runtime.CompileModule(ctx, b)
	if err != nil {
		return nil, err
	}
	p.modules[key] = &compiled{code: code}
	return p.modules[key], nil
}
