//go:build providers

package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Providers of Terraform become types as they are; scripts/providers builds them.
func TestProvidersOfTerraform(t *testing.T) {
	dir := os.Getenv("DEPLOYSTER_PROVIDERS")
	if !filepath.IsAbs(dir) {
		t.Fatalf("DEPLOYSTER_PROVIDERS=%s: the directory of the providers is absolute: run scripts/providers", dir)
	}
	p := scripts(t, "testdata/providers")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("PROVIDERS", dir)
		return setup(env)
	}
	testscript.Run(t, p)
}
