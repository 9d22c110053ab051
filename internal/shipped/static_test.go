package shipped_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/shipped"
)

func TestWhatIsNoExecutableIsNotPutIntoImages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	for _, content := range []string{"", "no program\n", strings.Repeat("no program\n", 100)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := shipped.CheckStatic(path, "amd64"); err == nil || err.Error() != path+" is not a Linux executable" {
			t.Errorf("%.12q gave %v", content, err)
		}
	}
	if err := shipped.CheckStatic(filepath.Join(t.TempDir(), "none"), "amd64"); !os.IsNotExist(err) {
		t.Errorf("what is not there gave %v", err)
	}
}
