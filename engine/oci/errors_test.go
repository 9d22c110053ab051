//go:build linux

package oci

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

func TestWhatIsMissingIsSaid(t *testing.T) {
	clone := fmt.Errorf("start the launcher: %w", &os.PathError{Op: "fork/exec", Path: "/proc/self/exe", Err: syscall.EPERM})
	private := &entrypoint.Failure{Doing: "keep mounts private", Text: "permission denied"}
	overlay := &entrypoint.Failure{Doing: "mount an overlay", Text: "no such device"}
	for _, c := range []struct {
		name     string
		err      error
		rootless bool
		overlays bool
		sysctl   string // of the one that is set to 0 or 1
		says     string
	}{
		{"an old kernel", &entrypoint.Failure{Doing: "keep files from the container", Text: "invalid argument", Linux: "5.11"}, false, true, "", "needs Linux 5.11"},
		{"an old kernel, without root", &entrypoint.Failure{Doing: "mount", Text: "function not implemented", Linux: "5.12"}, true, true, "kernel.unprivileged_userns_clone=0", "needs Linux 5.12"},
		{"no overlays in the kernel", overlay, false, false, "", "`modprobe overlay`"},
		{"nor without root", overlay, true, false, "", "`modprobe overlay`"},
		{"overlays for root only", overlay, true, true, "", "needs Linux 5.11"},
		{"no user namespaces", clone, true, true, "user.max_user_namespaces=0", "user.max_user_namespaces = 0"},
		{"Debian's setting", clone, true, true, "kernel.unprivileged_userns_clone=0", "kernel.unprivileged_userns_clone = 0"},
		{"Ubuntu's setting", private, true, true, "kernel.apparmor_restrict_unprivileged_userns=1", "kernel.apparmor_restrict_unprivileged_userns = 1"},
		{"something else", clone, true, true, "kernel.unprivileged_userns_clone=1", "do not work for you here"},
		{"root in a container", clone, false, true, "", "run that privileged"},
		{"mounts that root may not make", private, false, true, "", "run that privileged"},
		{"too many files", syscall.EMFILE, false, true, "", "too many open files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, value, _ := strings.Cut(c.sysctl, "=")
			err := whyForbidden(c.err, c.rootless, c.overlays, func(name string) string {
				if name == set {
					return value
				}
				return ""
			})
			assert.True(t, errors.Is(err, c.err) && strings.Contains(err.Error(), c.says), "%v, want %q", err, c.says)
		})
	}
}

func TestWhatRuntimesSayIsExplained(t *testing.T) {
	e := &Engine{runtime: "/usr/bin/some-runtime"}
	spec := engine.Spec{Image: "web", Entrypoint: "/tool"}
	for said, want := range map[string]string{
		`exec: "/tool": stat /tool: no such file or directory`:    `entrypoint "/tool" cannot be executed in image "web"`,
		"executable file `/tool` not found: No such file":         `entrypoint "/tool" cannot be executed in image "web"`,
		"open executable: Permission denied":                      `entrypoint "/tool" cannot be executed in image "web"`,
		"exec container process `/tool`: Exec format error":       "is built for another platform",
		"creating cgroup directory `/sys/fs/cgroup/x`: Read-only": "some-runtime cannot use this machine's control groups",
		"something that no case is for":                           "some-runtime: run the container: something",
	} {
		err := e.explain(spec, &entrypoint.Failure{Doing: "run the container", Text: said, Runtime: true})
		assert.True(t, strings.Contains(err.Error(), want) && strings.Contains(err.Error(), said), "%v, want %q", err, want)
	}
	for _, said := range []string{`exec: "/tool": mkdir /run/x: no space left on device`, "open executable: Too many open files in system"} {
		err := e.explain(spec, &entrypoint.Failure{Doing: "run the container", Text: said, Runtime: true})
		if errors.As(err, new(*engine.SpecError)) || !strings.HasPrefix(err.Error(), "some-runtime: ") || !strings.Contains(err.Error(), said) {
			t.Errorf("of a machine that lacks something it says %v", err)
		}
	}
	own := &entrypoint.Failure{Doing: "find user", Text: "exec: it is none of the runtime's"}
	if err := e.explain(spec, own); !errors.Is(err, own) || err.Error() != own.Error() {
		t.Errorf("%v", err)
	}
}
