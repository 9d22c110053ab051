package address_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/pullrequest/address"
)

func TestOneRepositoryIsOneHoweverItIsWritten(t *testing.T) {
	const want = "git.example/acme/deploy"
	for _, same := range []string{
		"https://git.example/acme/deploy.git", "https://git.example/acme/deploy", "https://git.example/acme/deploy/", "https://git.example/acme/deploy.git/",
		"https://GIT.Example/acme/deploy", "https://git.example:443/acme/deploy", "http://git.example:80/acme/deploy", "https://bot@git.example/acme/deploy",
		"HTTPS://bot:secret@git.example.//acme//deploy.git//", "https://git.example/Acme/Deploy", "https://git.example/acme/d%65ploy",
	} {
		assert.Equal(t, want, address.Canonical(same), same)
		assert.Equal(t, "git.example", address.Host(same), same)
	}
	for _, other := range []string{
		"https://git.example:8443/acme/deploy", "https://git.example:80/acme/deploy", "https://git.example/acme/deploy2", "https://git.example/deploy", "https://git.example.org/acme/deploy", "nothing", "", "https://%zz/",
	} {
		assert.NotEqual(t, want, address.Canonical(other), other)
	}
}
