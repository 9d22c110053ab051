package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/server"
)

// Who sends a revision is asked to put what it carries where that mends something, and not where
// the disk of the server fails.
func TestADiskThatFailsIsNotMendedByWhoSends(t *testing.T) {
	content := []byte("resources: []")
	body := `{"revision": "43", "carries": {"m.yaml": "` + objects.Hash(content) + `"}}`
	for _, c := range []struct {
		name   string
		make   func(dir string) error // of the objects
		status int
		want   string
	}{
		{"it is not here", func(string) error { return nil }, http.StatusUnprocessableEntity, "is not here: put it first"},
		{"it was altered", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, objects.Hash(content)), []byte("else"), 0o600)
		}, http.StatusUnprocessableEntity, "is not here: put it first"},
		{"it cannot be read", func(dir string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600) // the directory is none
		}, http.StatusInternalServerError, "the log of the server says why"},
	} {
		dir := t.TempDir()
		objectsDir := filepath.Join(dir, "sha256")
		if err := os.Mkdir(objectsDir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := c.make(objectsDir); err != nil {
			t.Fatal(err)
		}
		_, url := newServer(t, inFile(t, 1), func(o *server.Options) { o.Objects = objects.In(dir, nil) })
		if status, _, said := ask(t, "POST", url+"/v1/pipelines/p0/commands/release", "operator", body); status != c.status || !strings.Contains(said, c.want) {
			t.Errorf("%s: it is answered %d %s", c.name, status, said)
		}
	}
}
