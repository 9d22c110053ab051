package hostkeys

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPathsOfKnownHosts(t *testing.T) {
	for list, want := range map[string][]string{
		"/root/.ssh/known_hosts /root/.ssh/known_hosts2": {"/root/.ssh/known_hosts", "/root/.ssh/known_hosts2"},
		"~/.ssh/known_hosts ~/.ssh/known_hosts2":         {"/home/you/.ssh/known_hosts", "/home/you/.ssh/known_hosts2"},
		"/a b/known /c":                                  {"/a b/known", "/c"},
		"none":                                           nil,
		"/dev/null /x":                                   {"/x"},
		"":                                               nil,
	} {
		assert.Equal(t, want, paths(list, "/home/you"), "%s", list)
	}
}
