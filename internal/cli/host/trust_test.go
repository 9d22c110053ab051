package host

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/sshdtest"
)

func TestHostTrustAddsWhatIsAgreedTo(t *testing.T) {
	client := sshdtest.NewClient(t)
	jump, web, db := sshdtest.Start(t, client), sshdtest.Start(t, client), sshdtest.Start(t, client)
	client.Configure(t, "Host bastion gate", "  HostName 127.0.0.1", "  Port "+jump.Port, "Host db1", "  HostName localhost", "  Port "+db.Port, "  ProxyJump bastion", "Host lab", "  HostName 127.0.0.1", "  Port "+web.Port, "Host db2", "  HostName localhost", "  Port "+db.Port, "  ProxyJump gate")
	c := newCommand(t, fmt.Sprintf(`hosts:
- {name: web1, endpoint: "ssh://deploy@127.0.0.1:%[1]s"}
- {name: web1-rootless, endpoint: "ssh://other@127.0.0.1:%[1]s/run/user/1000/docker.sock"}
- {name: db1, endpoint: "ssh://db1"}
- {name: db2, endpoint: "ssh://db2"}
- {name: far, context: far}
- {name: here, engine: oci}
- {name: lab, context: lab}
- {name: socket, endpoint: "unix:///var/run/docker.sock"}
`, web.Port))
	c.dockerContext("far", "ssh://deploy@127.0.0.1:"+web.Port)

	out, code := c.run("trust")
	assert.Equal(t, 3, code)
	for _, want := range []string{
		"● web1, web1-rootless, far: new, deploy@127.0.0.1:" + web.Port + " ED25519\n  " + web.Fingerprint(t, "ed25519") + "\n",
		"● bastion, gate, jump host of db1, db2: new, bastion, gate ED25519\n  " + jump.Fingerprint(t, "ed25519") + "\n",
		"● db1, db2: new, db1, db2 ED25519\n  " + db.Fingerprint(t, "ed25519") + "\n",
		"✘ lab: there is no docker context lab in ",
		"error: 3 keys would be added to " + client.KnownHosts + ", and nobody can be asked: name the keys that you expect with --fingerprint SHA256:…, or say --yes for any key\n",
	} {
		assert.Contains(t, out, want)
	}
	assert.NoFileExists(t, client.KnownHosts)

	out, code = c.run("trust", "web1", "--fingerprint", db.Fingerprint(t, "ed25519"))
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "error: web1 has the key "+web.Fingerprint(t, "ed25519")+", which no --fingerprint names: nothing was added\n")
	out, code = c.run("trust", "web1", "--fingerprint", db.Fingerprint(t, "ed25519"), "--fingerprint", web.Fingerprint(t, "ed25519"))
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "no host has this key: nothing was added")
	assert.NoFileExists(t, client.KnownHosts)
	out, code = c.run("trust", "web1", "--fingerprint", web.Fingerprint(t, "ed25519"))
	assert.Equal(t, 0, code, "%s", out)
	assert.Contains(t, out, "added 1 key to "+client.KnownHosts+"\n")

	out, code = c.run("trust", "--yes")
	assert.Equal(t, 1, code, "%s", out)
	assert.Contains(t, out, "✔ web1, web1-rootless, far: known\n")
	assert.Contains(t, out, "added 2 keys to "+client.KnownHosts+"\nerror: the keys of 1 of 4 servers are not trusted\n", "an unknown context stops no other host")
	c.dockerContext("lab", "ssh://lab")
	out, code = c.run("trust")
	assert.Equal(t, 0, code, "with nothing to add there is no question: %s", out)
	assert.Equal(t, 3, strings.Count(out, ": known\n"))

	// A key that has changed is refused, also with --yes, and the others are added.
	db.Keys(t)
	require.NoError(t, os.WriteFile(client.KnownHosts, withoutLine(t, client.KnownHosts, web.Port), 0o600))
	old := strings.Fields(string(must.Get(os.ReadFile(client.KnownHosts))(t)))
	out, code = c.run("trust", "--yes")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "added 1 key to")
	assert.Contains(t, out, "✘ db1, db2: the host key has changed: "+client.KnownHosts+":2 has SHA256:")
	assert.Contains(t, out, ", the host "+db.Fingerprint(t, "ed25519")+"\n  find out why before you trust it: ssh-keygen -f "+client.KnownHosts+" -R '[localhost]:"+db.Port+"', then deployster host trust\n")
	assert.Contains(t, out, "error: the keys of 1 of 3 servers are not trusted\n")
	assert.Len(t, old, 6)

	c.app.Format = "json"
	out, _ = c.run("trust", "--yes")
	var document struct {
		Servers []trusted
		Added   int
	}
	require.NoError(t, json.Unmarshal([]byte(strings.Split(out, "\n")[0]), &document), "%s", out)
	assert.Equal(t, []string{"known", "known", "changed"}, []string{document.Servers[0].Status, document.Servers[1].Status, document.Servers[2].Status})
	assert.Equal(t, []string{}, document.Servers[1].Hosts)
	assert.Equal(t, []string{"db1", "db2"}, document.Servers[1].JumpOf)
	assert.Equal(t, []string{"gate"}, document.Servers[1].Aliases)
	assert.Equal(t, db.Fingerprint(t, "ed25519"), document.Servers[2].Fingerprint)
	assert.NotEqual(t, document.Servers[2].Before, document.Servers[2].Fingerprint)
}

// withoutLine returns what a file holds but for the lines with a text.
func withoutLine(t *testing.T, path, text string) (rest []byte) {
	for line := range strings.Lines(string(must.Get(os.ReadFile(path))(t))) {
		if !strings.Contains(line, text) {
			rest = append(rest, line...)
		}
	}
	return rest
}

// Behind two jump hosts one address is two servers, which ssh would take for one.
func TestHostsWithOneNameAndTwoKeysAreRefused(t *testing.T) {
	client := sshdtest.NewClient(t)
	a, b, eu, us := sshdtest.Start(t, client), sshdtest.Start(t, client), sshdtest.Start(t, client), sshdtest.Start(t, client)
	lines := []string{}
	for name, jump := range map[string]*sshdtest.Server{"eu": eu, "us": us} {
		lines = append(lines, "Host jump-"+name, "  HostName 127.0.0.1", "  Port "+jump.Port, "Host web-"+name, "  HostName 127.0.0.1", "  HostKeyAlias ten", "  ProxyJump jump-"+name)
	}
	client.Configure(t, lines...)
	c := newCommand(t, fmt.Sprintf("hosts: [{name: web-eu, endpoint: \"ssh://web-eu:%s\"}, {name: web-us, endpoint: \"ssh://web-us:%s\"}]", a.Port, b.Port))
	out, code := c.run("trust", "--yes")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "✘ web-us: web-eu is also ten to ssh, and has another key\n  give each a HostKeyAlias in ~/.ssh/config\n")
	assert.Contains(t, out, "added 3 keys to")
}

// What people type by mistake has an answer that says what to type.
func TestMistakesOfHostTrust(t *testing.T) {
	sshdtest.NewClient(t)
	const inventory = `hosts: [{name: web1, endpoint: "ssh://127.0.0.1:1"}, {name: here, engine: oci}, {name: box, endpoint: "unix:///x"}, {name: lab, context: lba}]`
	c := newCommand(t, inventory)
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"wbe1", 3, `there is no host "wbe1" in inventory.yaml, did you mean "web1"?`},
		{"ssh://deploy@web1", 3, "is an address, and this command takes names of hosts"},
		{"web1,here", 3, "separate the names of hosts by spaces"},
		{"here", 3, "host here is not reached by ssh, but at this machine: only ssh:// endpoints have host keys"},
		{"box", 3, "host box is not reached by ssh, but at unix:///x: only ssh:// endpoints have host keys"},
		{"--query name==here", 3, "no host of inventory.yaml that was chosen has an ssh:// endpoint"},
		{"lab", 3, "host lab: there is no docker context lba in "},
		{"web1 --yes --fingerprint SHA256:" + strings.Repeat("a", 43), 3, "--yes adds any key and --fingerprint only expected ones: give one of them"},
		{"web1 --fingerprint " + strings.Repeat("a", 43), 3, ": write SHA256:aaaa"},
		{"web1 --fingerprint " + strings.Repeat("ab:", 15) + "ab", 3, "is one of MD5: ssh-keygen -E sha256 -lf /etc/ssh/ssh_host_ed25519_key.pub"},
		{"web1 --fingerprint SHA256:short", 3, `--fingerprint "SHA256:short" is none: it is SHA256: and 43 characters`},
		{"web1 --fingerprint /etc/ssh/key.pub", 3, "as ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub prints on the host"},
		{"web1", 1, "✘ web1: ssh: connect to host 127.0.0.1 port 1: Connection refused\nerror: the keys of 1 of 1 server are not trusted\n"},
	} {
		out, code := c.run(append([]string{"trust"}, strings.Fields(test.args)...)...)
		assert.Equal(t, test.code, code, "%s", test.args)
		assert.Contains(t, out, test.want)
	}
}
