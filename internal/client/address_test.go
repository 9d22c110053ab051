package client_test

import (
	"testing"

	"github.com/deployster-go/deployster/internal/client"
)

// An address is that of a server however it is written, and no other one is.
func TestAServerIsItselfHoweverItIsWritten(t *testing.T) {
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"https://deploy.example", "https://deploy.example/", true},
		{"https://deploy.example/", "https://Deploy.Example:443", true},
		{"http://127.0.0.1:80", "http://127.0.0.1/", true},
		{"https://deploy.example", "https://deploy.example:7450", false},
		{"https://deploy.example", "http://deploy.example", false},
		{"https://deploy.example", "https://deploy.example/team", false},
		{"https://deploy.example", "https://deploy.example.net", false},
		{"https://deploy.example", "", false},
		{"unix:/run/deployster/socket", "unix:///run/deployster//socket", true},
		{"unix:/run/deployster/socket", "unix:/run/other/socket", false},
		{"unix:/run/deployster/socket", "http://socket", false},
	} {
		s, err := client.New(client.Options{Server: c.one})
		if err != nil {
			t.Fatal(err)
		}
		if s.Is(c.other) != c.same {
			t.Errorf("%q is %q: %v", c.one, c.other, !c.same)
		}
	}
}
