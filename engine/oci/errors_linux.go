package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// explain reports why there was no container to run. Runtimes distinguish these
// cases only in their texts.
func (e *Engine) explain(spec engine.Spec, failure *entrypoint.Failure) error {
	text := strings.ToLower(failure.Text)
	contains := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case failure.Replaced:
		return fmt.Errorf("%w: %w", engine.ErrReplaced, failure)
	case !failure.Runtime:
		return failure
	case engine.Exhausted(failure): // whatever else it says: runtimes name what they were about to do
		return fmt.Errorf("%s: %w", filepath.Base(e.runtime), failure)
	case contains("exec format error"):
		return &engine.SpecError{Cause: fmt.Errorf("%s of image %q is built for another platform than this machine's: %w", entrypointOf(spec), spec.Image, failure)}
	case contains("exec: ", "executable file", "find program", "executable path", "open executable"):
		return &engine.SpecError{Cause: fmt.Errorf("%s cannot be executed in image %q; check that the file is there and executable: %w", entrypointOf(spec), spec.Image, failure)}
	case contains("cgroup"):
		return fmt.Errorf("%s cannot use this machine's control groups; use another runtime, such as runc: %w", filepath.Base(e.runtime), failure)
	default:
		return fmt.Errorf("%s: %w", filepath.Base(e.runtime), failure)
	}
}

func entrypointOf(spec engine.Spec) string {
	if spec.Entrypoint == "" {
		return "the entrypoint"
	}
	return fmt.Sprintf("entrypoint %q", spec.Entrypoint)
}

// forbidden explains why a launcher could not be started or could not mount.
func (e *Engine) forbidden(err error) error {
	known, unread := os.ReadFile("/proc/filesystems")
	return whyForbidden(err, e.rootless, unread != nil || strings.Contains(string(known), "\toverlay\n"), func(sysctl string) string {
		value, _ := os.ReadFile("/proc/sys/" + strings.ReplaceAll(sysctl, ".", "/")) // what there is not forbids nothing
		return strings.TrimSpace(string(value))
	})
}

// whyForbidden is forbidden on a machine whose kernel has overlays or not, and
// whose settings sysctl reads.
func whyForbidden(err error, rootless, overlays bool, sysctl func(string) string) error {
	var failure *entrypoint.Failure
	failed := errors.As(err, &failure)
	if failed && failure.Linux != "" {
		return fmt.Errorf("the kernel is too old: that needs Linux %s; update it, or use Docker: %w", failure.Linux, err)
	}
	overlay := failed && strings.Contains(failure.Doing, "overlay")
	if overlay && !overlays {
		return fmt.Errorf("the kernel has no overlayfs: load it with `modprobe overlay`: %w", err)
	}
	if !rootless {
		if failed || errors.Is(err, syscall.EPERM) {
			return fmt.Errorf("namespaces cannot be made or used, though you are root; in a container, run that privileged: %w", err)
		}
		return err
	}
	for _, setting := range forbidding {
		if value := sysctl(setting.name); value == setting.value {
			return fmt.Errorf("user namespaces are forbidden by the sysctl %s = %s: change it, run as root, or use Docker: %w", setting.name, value, err)
		}
	}
	if overlay {
		return fmt.Errorf("overlays cannot be mounted without root: that needs Linux 5.11; run as root, or use Docker: %w", err)
	}
	return fmt.Errorf("user namespaces do not work for you here: run as root, or use Docker: %w", err)
}

// forbidding are the settings that keep plain users from making user namespaces,
// or from being root in them.
var forbidding = []struct{ name, value string }{
	{"user.max_user_namespaces", "0"},
	{"kernel.unprivileged_userns_clone", "0"},
	{"kernel.apparmor_restrict_unprivileged_userns", "1"},
}
