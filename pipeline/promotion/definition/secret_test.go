package definition_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

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
