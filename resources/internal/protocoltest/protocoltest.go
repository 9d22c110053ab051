// Package protocoltest holds the types that ship against the protocol, as `deployster type test`
// does with images of types: the same checks, of a type within the test's own process. So they
// take no container, and the type may be one whose world the test has made.
package protocoltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/authoring"
)

// Type is a resource type under test.
type Type interface {
	Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// Check makes all checks of a type with a good configuration, or those of init alone without one;
// and with that of another resource, which is made at the same time; nil is none. Plugs are paths
// by their names: the type finds them where they are.
func Check(t *testing.T, of Type, config, second any, plugs map[string]string) {
	t.Helper()
	o := authoring.Options{
		Engine: process{of}, Image: "deployster/test", Plugs: plugs, Version: "0", Workspace: t.TempDir(),
		Config: document(t, config), Second: document(t, second),
	}
	passed := 0
	err := authoring.Check(t.Context(), o, func(r authoring.Result) {
		switch r.Outcome {
		case authoring.Failed:
			t.Errorf("%s: %s", r.Name, r.Detail)
		case authoring.Passed:
			passed++
		default:
			t.Logf("skipped: %s: %s", r.Name, r.Detail)
		}
	})
	least := leastOfInit
	if config != nil {
		least = leastPassed
	}
	if err != nil || passed < least {
		t.Errorf("%d checks passed: %v", passed, err)
	}
}

// How many checks every type passes at least: those of what init answers, and with a configuration
// those of states as well.
const (
	leastOfInit = 6
	leastPassed = 15
)

// document is what JSON makes of a configuration.
func document(t *testing.T, config any) (all map[string]any) {
	t.Helper()
	text, err := json.Marshal(config)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// process runs a type in place of its containers.
type process struct{ Type }

// Image knows the one image.
func (process) Image(_ context.Context, ref string, _ engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	if ref != "deployster/test" {
		return engine.Image{}, fmt.Errorf("image %q: %w: it is not that of the type", ref, engine.ErrNoImage)
	}
	return engine.Image{Ref: ref, ID: "sha256:test"}, nil
}

// Run implements authoring.Engine.
func (p process) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	if spec.Entrypoint != "" {
		return engine.Exit{}, errors.New("the type names a program of its image, and has none here")
	}
	if spec.Timeout > 0 { // none of a process that serves
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, spec.Timeout, engine.ErrTimeout)
		defer cancel()
	}
	code := p.Type.Run(ctx, spec.Args, streams.Stdin, streams.Stdout, streams.Stderr)
	if ctx.Err() != nil {
		return engine.Exit{}, context.Cause(ctx)
	}
	return engine.Exit{Code: code}, nil
}
