package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestADirectoryIsShownWhereItsFileSystemIsMounted(t *testing.T) {
	const root = "1 0 8:1 / / rw - ext4 /dev/a rw\n"
	for _, c := range []struct {
		name, mounts string
		want         []string
	}{
		{"once", root, []string{"/sites/one/.state"}},
		{"by a bind mount of the workspace", root + "2 1 8:1 /sites/one /mnt/ws rw - ext4 /dev/a rw\n", []string{"/sites/one/.state", "/mnt/ws/.state"}},
		{"by one of it alone", root + "2 1 8:1 /sites/one/.state /x rw - ext4 /dev/a rw\n", []string{"/sites/one/.state", "/x"}},
		{"by one with a space in its name", root + "2 1 8:1 /sites /mnt/a\\040b rw - ext4 /dev/a rw\n", []string{"/sites/one/.state", "/mnt/a b/one/.state"}},
		{"by none of its neighbour", root + "2 1 8:1 /sites/on /mnt rw - ext4 /dev/a rw\n3 1 8:1 /sites/one/sub /mnt rw - ext4 /dev/a rw\n", []string{"/sites/one/.state"}},
		{"by none of another file system", root + "2 1 8:2 / /mnt rw - ext4 /dev/b rw\n", []string{"/sites/one/.state"}},
		{"in a file system of its own", root + "2 1 8:2 /a /sites rw - ext4 /dev/b rw\n3 1 8:2 /a/one /mnt rw - ext4 /dev/b rw\n4 1 8:2 / /all rw - ext4 /dev/b rw\n", []string{"/sites/one/.state", "/mnt/.state", "/all/a/one/.state"}},
		{"by nothing that can be read", "1\n\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, mountedAgain(c.mounts, "/sites/one/.state")) })
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add("1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:1 /a\\040b /mnt/\\134 rw\n", "/a b/c")
	f.Add("1 0 8:1 \\ \\9 rw", "/")
	f.Fuzz(func(t *testing.T, mounts, real string) {
		for _, at := range mountedAgain(mounts, "/"+strings.TrimLeft(real, "/")) {
			assert.NotEmpty(t, at, "it is shown at no path")
		}
	})
}
