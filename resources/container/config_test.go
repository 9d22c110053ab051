package container

import (
	"testing"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/typetest"
)

type request = protocol.Request[Config]

func TestBadConfiguration(t *testing.T) {
	image := func(more object) object { more["image"] = "x"; return more }
	for want, config := range map[string]object{
		`"image" is required`:                                      {},
		`restart "sometimes" must be`:                              image(object{"restart": "sometimes"}),
		`network "host" cannot be combined`:                        image(object{"networks": list{"host", "a"}}),
		"ports[0]: 0/tcp is not a port":                            image(object{"ports": list{object{"host": 80}}}),
		"ports[0]: 80/icmp is not a port":                          image(object{"ports": list{object{"container": 80, "protocol": "icmp"}}}),
		`ports[0]: address "localhost" must be an IP address`:      image(object{"ports": list{object{"container": 80, "address": "localhost"}}}),
		"ports[1]: the same port is listed twice":                  image(object{"ports": list{object{"container": 80}, object{"container": 80, "protocol": "tcp"}}}),
		"cannot unmarshal number 70000":                            image(object{"ports": list{object{"container": 70000}}}),
		`mounts[0]: either "volume" or "path" must be given`:       image(object{"mounts": list{object{"target": "/a"}}}),
		`mounts[0]: target "a" must be an absolute path below /`:   image(object{"mounts": list{object{"volume": "v", "target": "a"}}}),
		`mounts[0]: path "a" must be absolute`:                     image(object{"mounts": list{object{"path": "a", "target": "/a"}}}),
		"mounts[1]: target /a is listed twice":                     image(object{"mounts": list{object{"volume": "v", "target": "/a"}, object{"volume": "w", "target": "/a/"}}}),
		"health: a command is required":                            image(object{"health": object{}}),
		`a duration must be at least a millisecond and like "30s"`: image(object{"health": object{"command": list{"x"}, "interval": "1"}}),
		"environment variable A must be text":                      image(object{"env": object{"A": list{}}}),
		"environment variable A is in env and in public_env":       image(object{"env": object{"A": "1"}, "public_env": object{"A": "2"}}),
		"environment variable A is in env and in secret_env":       image(object{"env": object{"A": "1"}, "secret_env": object{"A": "1"}}),
		"environment variable B must be text":                      image(object{"public_env": object{"B": list{}}}),
		`unknown field "imagee"`:                                   image(object{"imagee": "x"}),
	} {
		r := typetest.Resource{Type: managed(settling).Type("/does/not/exist.sock"), Name: "web", Config: config}
		r.Fails(t, want, "state")
	}
}
