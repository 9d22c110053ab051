package terraform

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

// mostProviders is how many providers a process of a type starts: each may need hundreds
// of MiB.
const mostProviders = 16

// pool is the providers that run, one for each configuration of it that there is:
// providers are configured once.
type pool struct {
	program string
	env     []string
	now     func() time.Time

	mu      sync.Mutex
	entries map[[sha256.Size]byte]*entry
}

// entry is a provider for one configuration, nil until it is needed.
type entry struct {
	mu       sync.Mutex
	provider *tfplugin.Provider
}

// provider returns a provider with a configuration, a decoded document, which it starts
// where none runs. warn is called with what it says about the configuration.
func (p *pool) provider(ctx context.Context, config any, warn func(string)) (*tfplugin.Provider, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of the provider: %w", err)
	}
	e, err := p.entry(sha256.Sum256(text))
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.provider != nil && !e.provider.Dead() {
		return e.provider, nil
	}
	provider, err := tfplugin.Start(ctx, p.program, p.env, p.now())
	if err != nil {
		return nil, err
	}
	if err := configure(ctx, provider, config, warn); err != nil {
		provider.Close()
		return nil, fmt.Errorf("configuring the provider: %w", err)
	}
	e.provider = provider
	return provider, nil
}

func (p *pool) entry(key [sha256.Size]byte) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[key]
	if e == nil {
		if len(p.entries) >= mostProviders {
			return nil, fmt.Errorf("there are more than %d configurations of the provider: have fewer resources applied at a time, each with its own", mostProviders)
		}
		e = &entry{}
		if p.entries == nil {
			p.entries = map[[sha256.Size]byte]*entry{}
		}
		p.entries[key] = e
	}
	return e, nil
}

func configure(ctx context.Context, provider *tfplugin.Provider, config any, warn func(string)) error {
	value, err := blockValue(provider.Schemas.Provider.Block, config, nil)
	if err != nil {
		return inConfig(err)
	}
	value, said, err := provider.ValidateProvider(ctx, value)
	if err := failed(said, err, warn); err != nil {
		return err
	}
	said, err = provider.Configure(ctx, value)
	return failed(said, err, warn)
}

// failed is why a call failed, if it did; warnings are passed on.
func failed(said tfplugin.Diagnostics, err error, warn func(string)) error {
	for _, text := range said.Warnings() {
		warn(text)
	}
	if err != nil {
		return err
	}
	return said.Errors()
}

// close ends all providers.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ending sync.WaitGroup
	for _, e := range p.entries {
		ending.Go(func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.provider != nil {
				e.provider.Close()
			}
		})
	}
	ending.Wait()
}
