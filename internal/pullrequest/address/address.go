// Package address compares the addresses of git repositories, which people write in several
// ways.
package address

import (
	"net/url"
	"strings"
)

// Canonical is an address as it is compared: two with the same are of one repository. Whether it
// is by http or https, who asks, the usual port, .git and slashes at the end make no difference,
// and neither does the case of letters: no provider keeps two repositories that differ in that.
func Canonical(repository string) string {
	u, err := url.Parse(strings.TrimSpace(repository))
	if err != nil || u.Host == "" {
		return repository
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if port := u.Port(); port != "" && port != map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)] {
		host += ":" + port
	}
	var parts []string
	for part := range strings.SplitSeq(strings.ToLower(u.Path), "/") {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return host + "/" + strings.TrimSuffix(strings.Join(parts, "/"), ".git")
}

// Host is the part of an address that says which server it is, as it is compared.
func Host(address string) string {
	host, _, _ := strings.Cut(Canonical(address), "/")
	return host
}
