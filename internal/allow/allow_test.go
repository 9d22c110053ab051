package allow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

func read(text string) (r *allow.Rules, err error) {
	err = yamlfile.Read("gateway.yaml", []byte(text), "rules", func(n *yamlfile.Node) {
		r, _ = allow.Read(n, func(query string) error {
			if !strings.Contains(query, "==") {
				return fmt.Errorf("%q is no query", query)
			}
			return nil
		})
	})
	return r, err
}

// Images are compared by what they mean, and not by how they are written.
func TestImagesAreComparedByTheirReference(t *testing.T) {
	const digest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for _, test := range []struct {
		pattern, image string
		ok, fixed      bool
	}{
		{"gw", "gw", true, false},
		{"gw", "gw:2", true, false},
		{"gw", "gw" + digest, true, false},
		{"gw", "docker.io/library/gw:2", true, false},
		{"docker.io/library/gw", "gw", true, false},
		{"gw", "gw2", false, false},
		{"gw", "evil.example/gw", false, false},
		{"gw", "gw/evil", false, false},
		{"registry.example/team/*", "registry.example/team/gw:1", true, false},
		{"registry.example/team/*", "registry.example/team/a/b", false, false},
		{"registry.example/team/*", "registry.example/team2/gw", false, false},
		{"registry.example/team/*", "registry.example:5000/team/gw", false, false},
		{"registry.example/team/*", "registry.example.evil/team/gw", false, false},
		{"registry.example/team/**", "registry.example/team/a/b", true, false},
		{"registry.example/team/**", "registry.example/team", false, false},
		{"registry.example/gw:1.*", "registry.example/gw:1.2", true, true},
		{"registry.example/gw:1.*", "registry.example/gw:2", false, false},
		{"registry.example/gw:1.*", "registry.example/gw:1.2" + digest, false, false}, // the digest counts
		{"registry.example/gw:1.2", "registry.example/gw", false, false},
		{"gw" + digest, "gw" + digest, true, false},
		{"gw" + digest, "gw:1", false, false},
		{"gw" + digest, "other" + digest, false, false},
		{"*", "gw", true, false},
		{"*", "cafe", false, false}, // an engine may take it for an id
		{"*", "sha256:" + strings.Repeat("a", 64), false, false},
		{"*", strings.Repeat("a", 64), false, false},
		{"gw", "GW", false, false},
		{"gw", "", false, false},
	} {
		r, err := read("images: ['" + test.pattern + "']")
		require.NoError(t, err, test.pattern)
		ok, fixed := r.Image(test.image)
		assert.True(t, ok == test.ok && fixed == test.fixed, "%s covers %q: %v, %v", test.pattern, test.image, ok, fixed)
	}
	r, err := read("types: [deployster/file, registry.example/types/*]")
	require.NoError(t, err)
	for typ, want := range map[string]bool{
		"deployster/file": true, "deployster/container": false, "deployster/file:evil": false, "docker.io/deployster/file": false,
		"registry.example/types/disk:1": true, "registry.example/disk": false,
	} {
		ok, _ := r.Type(typ)
		assert.Equal(t, want, ok, typ)
	}
	ok, _ := (*allow.Rules)(nil).Type("deployster/file")
	assert.False(t, ok, "nil allows something")
	assert.True(t, allow.SameImage("gw:1", "docker.io/library/gw:2") && !allow.SameImage("gw"+digest, "gw:1") && !allow.SameImage("gw", "gw2"))
}

func TestPathsAreComparedAfterTheyAreCleaned(t *testing.T) {
	for _, test := range []struct {
		parent, asked string
		want          bool
	}{
		{"/srv/gateway", "/srv/gateway", true},
		{"/srv/gateway", "/srv/gateway/a/", true},
		{"/srv/gateway", "/srv/gateway/../gateway/a", true},
		{"/srv/gateway", "/srv/gateway2", false},
		{"/srv/gateway", "/srv/gateway/../../etc", false},
		{"/srv/gateway", "/srv", false},
		{"/srv/gateway", "/", false},
		{"/srv/gateway", "//srv//gateway//a", true},
		{"/", "/etc", true},
		{"site", "/work/site/a", true},
		{"site", "/work/site2", false},
		{"site", "site/../../etc", false},
		{"persistentvolumeclaim:a", "persistentvolumeclaim:a", true},
		{"persistentvolumeclaim:a", "persistentvolumeclaim:ab", false},
		{"/", "persistentvolumeclaim:a", false},
	} {
		assert.Equal(t, test.want, allow.Within("/work", test.parent, test.asked), "%s below %s", test.asked, test.parent)
	}
}

func TestFilesAreTheDefinitionsOwnUnlessTheyAreAllowed(t *testing.T) {
	r, err := read("files: [deploy/*.yaml, conf/**]")
	require.NoError(t, err)
	own := map[string]string{"a.yaml": "1", "b.txt": "2", "deploy/x.yaml": "3", "/variables": "4"}
	assert.Empty(t, r.ExcessFiles(own, map[string]string{"a.yaml": "1", "b.txt": "2", "deploy/x.yaml": "9", "conf/a/b": "8", "/variables": "7"}))
	found := r.ExcessFiles(own, map[string]string{"a.yaml": "9", "c.txt": "1", "deploy/a/x.yaml": "1", "conf": "1", "deploy/x.yaml": "3"})
	assert.Equal(t, strings.TrimSpace(`
  file a.yaml: asks for content 9; allowed: content 1 of the definition
  file c.txt: asks for content 1; allowed: nothing
  file conf: asks for content 1; allowed: nothing
  file deploy/a/x.yaml: asks for content 1; allowed: nothing
  file b.txt: asks for no such file; allowed: content 2 of the definition`), strings.TrimSpace(allow.Text(found)))
}

// What is wrong with rules is said at its place, with what to write instead.
func TestRulesThatCannotBeMeant(t *testing.T) {
	for text, says := range map[string]string{
		"type: [a]":                                 `did you mean "types"`,
		"types: deployster/file":                    "must be a list of images of types",
		"images: ['UPPER']":                         "gateway.yaml:1:10: images[0]: is no image",
		"images: ['a/**/b']":                        "at the end of the repository only",
		"images: [deployster/file]":                 "write docker.io/deployster/file for the image of a registry",
		"files: [../x.yaml]":                        "must be a path below the workspace",
		"files: ['a[']":                             "is no pattern of files",
		"plugs: [root]":                             "must be a mapping of plugs by their names",
		"plugs: {root: /srv}":                       "a plug must be a mapping with path, read_only",
		"plugs: {root: {}}":                         "there is no path, at or below which",
		"plugs: {root: {path: /srv/../etc}}":        "without . and .. and double slashes: /etc",
		"plugs: {root: {path: ~/x}}":                "must not begin with ~",
		"plugs: {root: {path: '{{ dir }}'}}":        "has an expression",
		"plugs: {root: {path: ../x}}":               "must be absolute, or below the workspace",
		"plugs: {root: {path: /srv, read_only: 7}}": "must be true or false",
		"plugs: {'ro ot': {path: /srv}}":            "cannot be the name of a plug",
		"hosts: prod":                               "is no query",
		"hosts: [a]":                                "must be a query such as",
		"[]":                                        "must be a mapping with files, types, plugs, images, hosts",
	} {
		_, err := read(text)
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), says, text)
	}
}
