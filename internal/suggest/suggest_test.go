package suggest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/suggest"
)

func TestWhatGitCloneTakesIsWrittenAsASource(t *testing.T) {
	for text, want := range map[string]string{
		"git@git.example:org/repo":                        "git::ssh://git@git.example/org/repo//DIRECTORY?ref=TAG",
		"git::git@git.example:org/repo.git":               "git::ssh://git@git.example/org/repo.git//DIRECTORY?ref=TAG",
		"git@git.example:/srv/repo//modules/web?ref=v1.2": "git::ssh://git@git.example/srv/repo//modules/web?ref=v1.2",
		"git@git.example:org/repo?token=secret":           "git::ssh://git@git.example/org/repo//DIRECTORY?ref=TAG",
		"git::ssh://git@git.example/org/repo":             "",
		"oci://registry.example/org/repo:1":               "",
		"registry.example/a@sha256:0123":                  "",
		"./a@b:c":                                         "",
		"me:secret@git.example:org/repo":                  "",
		"-oProxyCommand=x@git.example:org/repo":           "",
		"git@-oProxyCommand=x:org/repo":                   "",
		"":                                                "",
	} {
		assert.Equal(t, want, suggest.GitSource(text), text)
	}
}

func TestClosest(t *testing.T) {
	known := []string{"content", "path", "read_only", "resource_names", "type"}
	for word, want := range map[string]string{
		"contnet": "content", "Path": "path", "readOnly": "read_only", "resourceNames": "resource_names", "tpye": "type",
		"something": "", "": "", "x": "", "pa": "", "types": "type",
	} {
		assert.Equal(t, want, suggest.Closest(word, known), word)
	}
	for word, want := range map[string]string{"x": "", "xy": "", "B": "b", "dx": "db", "bd": "db"} {
		assert.Equal(t, want, suggest.Closest(word, []string{"a", "b", "db"}), "%q among short names", word)
	}
}
