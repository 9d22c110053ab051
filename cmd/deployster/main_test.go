package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// What a container starts this program for is done before what only the tool needs is
// initialized, which would take longer than all that the container does with it.
func TestContainersDoNotWaitForWhatOnlyTheToolNeeds(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
		code int
	}{
		"a launcher or a shim": {[]string{entrypoint.Word, "other"}, "there is no role other", entrypoint.Failed},
		"the type file":        {[]string{"type", "run", "file"}, `"plugs":{"root"`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], tc.args...)
			cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
			said, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.Contains(string(said), tc.says) {
				t.Fatalf("exit code %d (%v), want %d and %q:\n%s", code, err, tc.code, tc.says, said)
			}
			for _, late := range []string{"santhosh-tekuri/jsonschema", "modernc.org/sqlite", "distribution/reference", "deployster/manifest"} {
				assert.NotContains(t, string(said), late, "initialized first")
			}
		})
	}
}

// What a package of ours allocates while it is initialized, such as compiled patterns, every
// start pays for.
func TestPackagesPrepareNothingBeforeItIsNeeded(t *testing.T) {
	const bound = 8 << 10
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, string(said))
	packages := regexp.MustCompile(`(?m)^init github\.com/deployster-go/deployster/(\S+) .* (\d+) bytes`).FindAllStringSubmatch(string(said), -1)
	require.NotEmpty(t, packages, string(said))
	for _, p := range packages {
		if bytes, err := strconv.Atoi(p[2]); err != nil || bytes > bound {
			t.Errorf("%s allocates %s bytes when it is initialized, more than %d: prepare what takes them when it is needed, as internal/pattern does", p[1], p[2], bound)
		}
	}
}
