package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/server"
)

// What a job has printed is read in parts by all who may read, and nothing else of the directory.
func TestTheLogOfAJobIsReadInParts(t *testing.T) {
	log, dir := logtest.NewMemory().Open(), t.TempDir()
	if _, err := log.Append(t.Context(), groups(t)...); err != nil {
		t.Fatal(err)
	}
	_, url := newServer(t, log, func(o *server.Options) { o.Workspace = dir })
	write := func(job int, text string) {
		t.Helper()
		at := filepath.Join(dir, jobs.LogName("base-1", job, 1))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(1, "making libc\n")
	long := strings.Repeat("x", 2<<20)
	write(2, long)
	write(3, "nobody ran it")
	secret := filepath.Join(dir, "key")
	if err := os.WriteFile(secret, []byte("the key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, who string
		want      int
		says      string
	}{
		{"base-1/jobs/1/log", "viewer", 200, "making libc\n"},
		{"base/jobs/libc/log?attempt=1", "viewer", 200, "making libc\n"},
		{"base-1/jobs/1/log?offset=7&limit=3", "viewer", 200, "lib"},
		{"base-1/jobs/1/log?offset=12", "viewer", 200, ""},
		{"base-1/jobs/1/log?offset=9223372036854775807", "viewer", 200, ""},
		{"base-1/jobs/2/log", "viewer", 200, long[:1<<20]},
		{"base-1/jobs/2/log?limit=1048577", "viewer", 422, "limit"},
		{"base-1/jobs/1/log?offset=-1", "viewer", 422, "offset"},
		{"base-1/jobs/1/log?attempt=2", "viewer", 404, "no such attempt"},
		{"base-1/jobs/1/log?attempt=-1", "viewer", 422, "attempt"},
		{"base-1/jobs/3/log", "viewer", 404, "no such attempt"},
		{"base-1/jobs/1/log", "nobody", 403, "may not"},
		{"base-1/jobs/99/log", "viewer", 404, ""},
		{"base-9/jobs/1/log", "viewer", 404, ""},
		{"base-1%2F..%2F..%2F../jobs/1/log", "viewer", 404, ""},
	} {
		status, header, said := ask(t, "GET", url+"/v1/builds/"+test.path, test.who, "")
		right := status == test.want && strings.Contains(said, test.says)
		if status == http.StatusOK {
			right = right && said == test.says && header.Get(server.LogSize) != ""
		}
		if !right {
			t.Errorf("%s as %s: %d %.100q %v, want %d %.100q", test.path, test.who, status, said, header, test.want, test.says)
		}
	}
	at := filepath.Join(dir, jobs.LogName("base-1", 1, 1))
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if status, _, said := ask(t, "GET", url+"/v1/builds/base-1/jobs/1/log", "viewer", ""); status != 404 || !strings.Contains(said, "no log of it here") {
		t.Errorf("one that is gone: %d %s", status, said)
	}
	if err := os.Symlink(secret, at); err != nil {
		t.Fatal(err)
	}
	if status, _, said := ask(t, "GET", url+"/v1/builds/base-1/jobs/1/log", "viewer", ""); status != 500 || strings.Contains(said, "key") {
		t.Errorf("a link: %d %s", status, said)
	}
}
