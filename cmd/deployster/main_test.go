package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
				if strings.Contains(string(said), late) {
					t.Errorf("%s was initialized first:\n%s", late, said)
				}
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
	if err != nil {
		t.Fatalf("%v:\n%s", err, said)
	}
	packages := regexp.MustCompile(`(?m)^init github\.com/deployster-go/deployster/(\S+) .* (\d+) bytes`).FindAllStringSubmatch(string(said), -1)
	if len(packages) == 0 {
		t.Fatalf("%d packages say what they allocate:\n%s", len(packages), said)
	}
	for _, p := range packages {
		if bytes, err := strconv.Atoi(p[2]); err != nil || bytes > bound {
			t.Errorf("%s allocates %s bytes when it is initialized, more than %d: prepare what takes them when it is needed, as internal/pattern does", p[1], p[2], bound)
		}
	}
}
