package definition_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// proposes is a definition whose stages but the first propose, with more keys each.
func proposes(environments []string, more ...string) string {
	text := "pipeline: shop\npromotion: {policy: single}\nstages:\n- {name: dev, environment: dev}\n"
	for i, e := range environments {
		text += fmt.Sprintf("- {name: s%d, environment: %s, strategy: pull-request, pull_request: {repository: 'https://git.example/a/b.git', file: x.yaml, value: a.b, %s}}\n", i, e, more[i])
	}
	return text
}

func TestWhatAPullRequestDoesNotSayHasADefault(t *testing.T) {
	d, err := definition.Parse("shop.yaml", []byte(proposes([]string{"shop/prod"}, "provider: gitea, token_env: DEPLOYSTER_GIT_TOKEN")))
	require.NoError(t, err)
	want := definition.PullRequest{
		Repository: "https://git.example/a/b.git", File: "x.yaml", Value: "a.b", Base: "main", Branch: "deployster/shop/shop/prod", Provider: "gitea", TokenEnv: "DEPLOYSTER_GIT_TOKEN",
		Timeout: definition.Duration(30 * time.Minute), CheckEvery: definition.Duration(time.Minute),
	}
	assert.Equal(t, want, *d.Stages[1].PullRequest)
}

func TestEachStageHasABranchOfItsOwn(t *testing.T) {
	both := []string{"shop", "shop/prod"}
	for name, c := range map[string]struct{ first, second, why string }{
		"one below the other":   {"provider: none", "provider: none", "git cannot have branch deployster/shop/shop/prod beside deployster/shop/shop of stage s0"},
		"the same":              {"provider: none, branch: x", "provider: none, branch: x", "stage s0 has branch x of this repository already"},
		"two of them":           {"provider: none, branch: x", "provider: none", ""},
		"the base branch":       {"provider: none, branch: x", "provider: none, base: trunk, branch: trunk", "needs a branch of its own, not trunk"},
		"no branch":             {"provider: none, branch: x", "provider: none, branch: a..b", "cannot be a branch of git"},
		"a lock":                {"provider: none, branch: x", "provider: none, branch: a/b.lock", "cannot be a branch of git"},
		"an option":             {"provider: none, branch: x", "provider: none, base: --upload-pack=x", "cannot be a branch of git"},
		"a name within another": {"provider: none, branch: x", "provider: none, branch: a//b", "cannot be a branch of git"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := definition.Parse("shop.yaml", []byte(proposes(both, c.first, c.second)))
			if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("it fails with %v, not %s", err, c.why)
			}
		})
	}
}

// The same repository is the same however it is written.
func TestARepositoryIsThatHoweverItIsWritten(t *testing.T) {
	text := proposes([]string{"shop", "shop/prod"}, "provider: none, branch: x", "provider: none, branch: x")
	last := strings.LastIndex(text, "https://git.example/a/b.git")
	for _, same := range []string{"https://GIT.example:443/a/b/", "https://git.example/A/b", "https://git.example./a/b.git/"} {
		again := text[:last] + strings.Replace(text[last:], "https://git.example/a/b.git", same, 1)
		_, err := definition.Parse("shop.yaml", []byte(again))
		assert.ErrorContains(t, err, "stage s0 has branch x of this repository already")
	}
}

func TestTokensGoNowhereInTheClear(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://git.example/a/b": true, "http://localhost:3000/a/b": true, "http://127.0.0.1/a/b": true, "http://[::1]:3000/a/b": true,
		"http://git.example/a/b": false, "http://localhost.git.example/a/b": false, "ssh://git.example/a/b": false, "git@git.example:a/b": false, "file:///etc": false, "/etc": false,
		"https://ann:secret@git.example/a/b": false, "https://git.example/a/b?x=1": false,
	} {
		text := strings.ReplaceAll(proposes([]string{"prod"}, "provider: none"), "https://git.example/a/b.git", address)
		if _, err := definition.Parse("shop.yaml", []byte(text)); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestWhichFilesMayHaveASecret(t *testing.T) {
	for path, want := range map[string]bool{
		"secrets/git.token": true, "shop/secrets/eu/git.token": true, "../secrets/git.token": true, "./secrets//git.token": true, "secrets/.token": true,
		"": false, "git.token": false, "secrets": false, "shop/secrets": false, "secrets/": false, "secrets/.": false, "secrets/..": false,
		"secrets/../git.token": false, "x/secrets/../../git.token": false, "Secrets/git.token": false, "my-secrets/git.token": false,
		".deployster/log.db": false, "secrets/../.deployster/log.db": false, ".deployster/secrets/x": false, "secrets/.deployster/x": false, "shop/.deployster/secrets/x": false,
	} {
		assert.Equal(t, want, definition.IsSecretFile(path), "%q may have a secret", path)
	}
}

// A value may be one, a list, or both.
func TestWhichValuesAreSet(t *testing.T) {
	type values = []definition.Value
	for keys, want := range map[string]struct {
		values
		why string
	}{
		"file: a.yaml, value: tag, part: tag":                     {values{{"a.yaml", "tag", "tag"}}, ""},
		"file: a.yaml, set: [{value: x}, {value: y, part: tag}]":  {values{{"a.yaml", "x", ""}, {"a.yaml", "y", "tag"}}, ""},
		"file: a.yaml, value: x, set: [{file: b.yaml, value: x}]": {values{{"a.yaml", "x", ""}, {"b.yaml", "x", ""}}, ""},
		"set: [{file: a.yaml, value: x}]":                         {values{{"a.yaml", "x", ""}}, ""},
		"file: a.yaml":                                            {nil, "it has no value, the path of the value in the file"},
		"value: tag":                                              {nil, "it has no file, the path of the one in the repository"},
		"set: [{value: x}]":                                       {nil, "it has no file: name one here, or for all of them beside set"},
		"set: []":                                                 {nil, "it has no element, such as {value: image.tag}"},
		"file: a.yaml, set: [{part: tag}]":                        {nil, "it has no value, the path of the value in the file"},
		"file: a.yaml, part: tag, set: [{value: x}]":              {nil, "is of value, and there is none"},
		"file: a.yaml, value: x, set: [{value: x}]":               {nil, "x of a.yaml is set already"},
		"file: a.yaml, set: [{value: x}, {file: a.yaml, value: x, part: tag}]": {nil, "x of a.yaml is set already"},
		"file: a.yaml, set: [{value: 'x['}]":                                   {nil, "leads to no value"},
		"set: [{file: ../a.yaml, value: x}]":                                   {nil, "must be a path within the repository"},
	} {
		text := strings.Replace(proposes([]string{"prod"}, "provider: none"), "file: x.yaml, value: a.b", keys, 1)
		d, err := definition.Parse("shop.yaml", []byte(text))
		if want.why != "" {
			assert.ErrorContains(t, err, want.why, keys)
			continue
		}
		require.NoError(t, err, keys)
		assert.Equal(t, want.values, d.Stages[1].PullRequest.Values(), keys)
		again, err := d.Reread("shop")
		require.NoError(t, err, keys)
		assert.Equal(t, d, again, keys)
	}
}

func TestHowCommitsAreMade(t *testing.T) {
	for keys, why := range map[string]string{
		"title: 'deploy {{ stage }}: {{ revision[:7] }}', commit: {author: Ann Lee <ann@example.com>, message: 'x {{ value }} {{ file }}', sign_off: true, signing_key: secrets/k, signing_passphrase: secrets/p}": "",
		"title: '{{ revison }}'":                   "there is no revison; it can use revision, pipeline, stage, environment, file, value",
		"commit: {message: '{{ revision'}":         "it is no template that can be filled in",
		"commit: {message: \"{% include 'x' %}\"}": "it is no template that can be filled in",
		"commit: {author: ann}":                    "must be a name and an address of mail, as Ann Lee <ann@example.com> is",
		"commit: {author: Ann <a@b>, committer: CI <ci@b>, trailers: ['Refs: OPS-{{ revision }}', 'Co-authored-by: Bob <b@b>'], signing_key: secrets/k, signing_passphrase: secrets/p}": "",
		"commit: {committer: CI}":                          "must be a name and an address of mail",
		"commit: {trailers: {Refs: OPS-42}}":               `must be a list of trailers, as ["Refs: OPS-42"], not a mapping`,
		"commit: {trailers: [Refs]}":                       "must be a key, a colon, a space and a value, as \"Refs: OPS-42\" is, not \"Refs\"",
		"commit: {trailers: ['Refs: {{ ticket }}']}":       "there is no ticket; it can use revision",
		"commit: {trailers: ['Signed-off-by: Ann <a@b>']}": "set sign_off: true instead",
		"commit: {trailers: ['deployster-promotion: x']}":  "Deployster writes the trailer deployster-promotion itself",
		"commit: {sign_off: true}":                         "needs an author, who signs off",
		"commit: {signing_key: ann.key}":                   "must be in a directory named secrets",
		"commit: {signing_passphrase: secrets/p}":          "is of signing_key, and there is none",
		"commit: {signing_key: secrets/k, gpg: true}":      "gpg",
	} {
		d, err := definition.Parse("shop.yaml", []byte(proposes([]string{"prod"}, "provider: none, "+keys)))
		if why != "" {
			assert.ErrorContains(t, err, why, keys)
			continue
		}
		require.NoError(t, err, keys)
		again, err := d.Reread("shop")
		require.NoError(t, err, keys)
		assert.Equal(t, d, again, keys)
		assert.Len(t, d.Stages[1].PullRequest.SecretFiles(), 2, keys)
	}
}
