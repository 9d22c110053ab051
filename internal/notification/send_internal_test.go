package notification

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/pipeline/record"
)

// What is held says why, whatever holds it.
func TestWhatIsHeldIsToldWithItsReason(t *testing.T) {
	for target, name := range map[deploylog.Target]string{
		"environment/shop/prod": envrecord.HostsHeld, "environment/shop/test": envrecord.EnvironmentPaused, "host-group/shop/all": record.MembersHeld, "pipeline/shop": record.PipelinePaused,
	} {
		e := deploylog.Event{Target: target, Name: name, Data: []byte(`{"reason":"9 of 10 hosts would leave"}`)}
		if m := (Rule{}).message("log", e, Held); !strings.HasSuffix(m.Text, ": 9 of 10 hosts would leave") || !strings.HasPrefix(m.Text, string(target)) {
			t.Errorf("%s is told as %q", name, m.Text)
		}
	}
}

// What is in the place of a secret holds up nobody: a pipe to which nobody writes, or a device
// that never ends.
func TestASecretIsReadFromAFileAlone(t *testing.T) {
	dir := t.TempDir()
	pipe, file, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte(" word\n"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero", dir} {
		if text, err := secret(path); err == nil || !strings.Contains(err.Error(), "open "+path+": it is a ") {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if _, err := secret(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for _, path := range []string{file, link} {
		if text, err := secret(path); err != nil || text != "word" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}
