package serve

import (
	"errors"
	"strings"
	"testing"
)

func TestAServerHasANameThatLasts(t *testing.T) {
	for what, c := range map[string]struct {
		o          options
		host, want string
	}{
		"where it listens tells two of a machine apart": {options{listen: []string{"0.0.0.0:7450"}}, "one", "one 0.0.0.0:7450"},
		"sockets do so, too":                            {options{listen: []string{":1", ":2"}, sockets: []string{"/run/s"}}, "one", "one :1 :2 /run/s"},
		"systemd says where":                            {options{}, "one", "one"},
		"somebody says which":                           {options{name: "web 1", listen: []string{":1"}}, "one", "web 1"},
		"a machine without a name":                      {options{listen: []string{":1"}}, "", "server :1"},
		"letters are counted, and not bytes":            {options{name: strings.Repeat("ü", 200)}, "one", strings.Repeat("ü", 200)},
		"too long":                                      {options{name: strings.Repeat("ü", 201)}, "one", "refused"},
		"what a terminal would obey":                    {options{name: "\x1b[2J"}, "one", "refused"},
		"what is no text":                               {options{name: "\xff\n"}, "one", "refused"},
	} {
		err := c.o.readName(func() (string, error) {
			if c.host == "" {
				return "", errors.New("it has none")
			}
			return c.host, nil
		})
		if got := c.o.name; (err != nil) != (c.want == "refused") || err == nil && got != c.want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, c.want)
		}
	}
}
