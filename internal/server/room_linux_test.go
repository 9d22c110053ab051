package server_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/server"
)

// Whoever may send objects, and be it for one pipeline, must not fill the disk: the log is on it, too.
func TestObjectsLeaveRoomOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=260m"); err != nil { // 4 MiB more than what is left free
		t.Fatal(err)
	}
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, 0)) })
	_, url := newServer(t, logOf(t, 0), func(o *server.Options) { o.Objects = objects.In(dir, nil) })
	put := func(content []byte) (int, string) {
		status, _, text := ask(t, "PUT", url+"/v1/objects/"+objects.Hash(content), "operator", string(content), "Content-Type", "application/octet-stream")
		return status, text
	}
	first, second := bytes.Repeat([]byte("1"), 3<<20), bytes.Repeat([]byte("2"), 3<<20)
	answers(t, http.StatusNoContent, "")(put(first))
	answers(t, http.StatusInsufficientStorage, "deployster gc")(put(second))
	answers(t, http.StatusNoContent, "")(put(first))
}

// A text that may be kept where the log is may be sent, too.
func TestTheLargestObjectIsKept(t *testing.T) {
	_, url := newServer(t, logOf(t, 0))
	for size, expected := range map[int]int{objects.MaxSize: http.StatusNoContent, objects.MaxSize + 1: http.StatusRequestEntityTooLarge} {
		content := bytes.Repeat([]byte("1"), size)
		status, _, text := ask(t, "PUT", url+"/v1/objects/"+objects.Hash(content), "operator", string(content), "Content-Type", "application/octet-stream")
		assert.Equal(t, expected, status, "%d bytes are answered %d %s", size, status, text)
	}
}
