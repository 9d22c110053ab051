package address_test

import (
	"testing"

	"github.com/deployster-go/deployster/internal/pullrequest/address"
)

func TestOneRepositoryIsOneHoweverItIsWritten(t *testing.T) {
	const want = "git.example/acme/deploy"
	for _, same := range []string{
		"https://git.example/acme/deploy.git", "https://git.example/acme/deploy", "https://git.example/acme/deploy/", "https://git.example/acme/deploy.git/",
		"https://GIT.Example/acme/deploy", "https://git.example:443/acme/deploy", "http://git.example:80/acme/deploy", "https://bot@git.example/acme/deploy",
		"HTTPS://bot:secret@git.example.//acme//deploy.git//", "https://git.example/Acme/Deploy", "https://git.example/acme/d%65ploy",
	} {
		if got := address.Canonical(same); got != want || address.Host(same) != "git.example" {
			t.Errorf("%s is %s at %s", same, got, address.Host(same))
		}
	}
	for _, other := range []string{
		"https://git.example:8443/acme/deploy", "https://git.example:80/acme/deploy", "https://git.example/acme/deploy2", "https://git.example/deploy", "https://git.example.org/acme/deploy", "nothing", "", "https://%zz/",
	} {
		if got := address.Canonical(other); got == want {
			t.Errorf("%s is %s", other, got)
		}
	}
}
