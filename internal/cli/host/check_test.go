package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
)

var pings = regexp.MustCompile(`[0-9.]+ms`)

func TestHostCheckTellsWhatToChange(t *testing.T) {
	well, late := dockerEngine(t, told{ID: "A"}), dockerEngine(t, told{ID: "B", Ahead: -5 * time.Minute, Warnings: []string{
		"WARNING: No swap limit support", "[DEPRECATION NOTICE]: API is accessible on http://0.0.0.0:2375 without encryption.\n         Access to the remote API is equivalent to root access"}})
	c := newCommand(t, fmt.Sprintf(`hosts:
- {name: web1, endpoint: %q}
- {name: web2, endpoint: %q}
- {name: web3, endpoint: %q, platforms: [linux/arm64]}
- {name: web4, endpoint: "unix:///nowhere/docker.sock"}
- {name: proxied, endpoint: %q}
- {name: lab, context: lab}
`, well, late, well, dockerEngine(t, told{ID: "C", Info: 403})))

	out, code := c.run("check")
	assert.Equal(t, 1, code)
	for _, want := range []string{
		"NAME     ANSWER                        PING",
		"web1     ✔ docker 28.2.2, linux/amd64", "0.0s    4 GiB\n", "-5m00s  4 GiB\n", "web3     ✘ another platform", "web4     ✘ cannot be reached",
		"\n✘ web3: it runs linux/amd64, and the inventory lists linux/arm64: correct its platforms or its address there\n",
		"\n✘ web4: Docker at unix:///nowhere/docker.sock", "\n✘ lab: there is no docker context lab in ",
		"\n! web1: it is the same engine as web3, and the slots of each count: keep one of them, or correct an address\n",
		"\n! web2: its clock is 5m00s behind that of this machine, so times of the log are wrong: run `timedatectl set-ntp true` on the one that is wrong\n",
		"\n! web2: everyone who reaches http://0.0.0.0:2375 owns it: remove that address from its dockerd, and use an ssh:// endpoint\n",
		"error: 3 of 6 hosts cannot be deployed to\n",
	} {
		assert.Contains(t, out, want)
	}
	assert.NotContains(t, out, "swap")
	line := regexp.MustCompile(`(?m)^proxied .*$`).FindString(out)
	assert.Regexp(t, `✔ docker 28.2.2, linux/amd64  [0-9.]+ms +– +–$`, line, "a proxy forbids the question for the clock")

	c.app.Format = "json"
	out, _ = c.run("check")
	var document struct{ Hosts []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(strings.Split(out, "\n")[0]), &document), "%s", out)
	first := document.Hosts[0]
	assert.Equal(t, "linux/amd64", first["platform"])
	assert.Equal(t, map[string]any{"used": float64(4 << 30), "images": float64(3 << 30), "containers": 0.0, "volumes": float64(1 << 30), "build_cache": 0.0, "reclaimable": float64(1 << 30)}, first["disk"])
	for _, key := range []string{"name", "answer", "engine", "version", "address", "engine_id", "round_trip_ms", "clock_ahead_ms", "clock_within_ms", "changes"} {
		assert.Contains(t, first, key)
	}
	assert.Equal(t, []any{}, document.Hosts[3]["changes"], "programs find a list, not null")
	assert.Equal(t, "a proxy forbids the question", document.Hosts[4]["disk_unknown"])
}

func TestAHostThatIsAContextIsItsEngine(t *testing.T) {
	c := newCommand(t, "hosts: [{name: a, context: lab}]")
	c.dockerContext("lab", dockerEngine(t, told{ID: "A"}))
	out, code := c.run("check")
	assert.Equal(t, 0, code, "%s", out)
	assert.Contains(t, out, "a     ✔ docker 28.2.2, linux/amd64")
	out, _ = c.run("list")
	assert.Contains(t, out, "a     docker  context lab  1")
	c.app.Format = "json"
	out, _ = c.run("list")
	assert.Contains(t, out, `"engine":"docker","context":"lab","platforms"`)
}

func TestADiskThatIsNotKnownIsNoFailure(t *testing.T) {
	c := newCommand(t, fmt.Sprintf("hosts: [{name: a, endpoint: %q}]", dockerEngine(t, told{Disk: 500})))
	out, code := c.run("check")
	assert.Equal(t, 0, code, "%s", out)
	assert.Equal(t, "NAME  ANSWER                        PING   CLOCK\na     ✔ docker 28.2.2, linux/amd64  N  0.0s\n", pings.ReplaceAllString(out, "N"))
}

func TestWhatHostsShouldChange(t *testing.T) {
	for name, test := range map[string]struct {
		about docker.About
		route string
		want  string
	}{
		"a clock within the doubt":  {docker.About{Clock: 3 * time.Second, ClockWithin: 2 * time.Second, ClockKnown: true}, "", ""},
		"a clock that is not known": {docker.About{Clock: time.Hour}, "", ""},
		"a clock ahead":             {docker.About{Clock: 3 * time.Second, ClockKnown: true}, "", "its clock is 3.0s ahead of that of this machine"},
		"far away":                  {docker.About{RoundTrip: time.Second}, "", "a request takes 1.0s: run Deployster nearer to it"},
		"forwarded":                 {docker.About{}, "ssh, forwarded socket", ""},
		"forwarding forbidden":      {docker.About{}, "ssh, docker command", "`AllowStreamLocalForwarding yes`"},
		"little space":              {docker.About{Disk: &docker.DiskUsage{Directory: "/var/lib/docker", Free: 1 << 30, Size: 100 << 30, Reclaimable: 5 << 30}}, "", "only 1 GiB of 100 GiB are free in /var/lib/docker: `docker system prune --all` there would free 5 GiB"},
		"a large disk":              {docker.About{Disk: &docker.DiskUsage{Free: 30 << 30, Size: 10 << 40}}, "", ""},
		"space that is not known":   {docker.About{Disk: &docker.DiskUsage{Images: 1 << 30}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := checkedHost{Route: test.route}
			f.tell(test.about)
			if test.want == "" {
				assert.Empty(t, f.Changes)
				return
			}
			require.Len(t, f.Changes, 1)
			assert.Contains(t, f.Changes[0], test.want)
		})
	}
}

func TestErrorsOfHostsTakeTwoLines(t *testing.T) {
	found := make([]checkedHost, 5)
	for i := range found {
		found[i].Name = fmt.Sprint("web", i+1)
		found[i].fail("cannot be reached", fmt.Errorf("there is no ssh here\ninstall openssh-client\nand more"))
	}
	found[4].fail("cannot be reached", fmt.Errorf("another"))
	assert.Equal(t, []string{"✘ web1, web2, web3 and 1 more: there is no ssh here\n  install openssh-client", "✘ web5: another"}, remarks(found))
}

// An interrupt ends host check. The answers that are there are shown.
func TestAnInterruptEndsHostCheck(t *testing.T) {
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	answered := make(chan struct{})
	well := dockerEngine(t, told{ID: "A", Left: sync.OnceFunc(func() { close(answered) })})
	c := newCommand(t, fmt.Sprintf("hosts: [{name: a, endpoint: \"tcp://%s\"}, {name: b, endpoint: %q}]", silent.Addr(), well))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := silent.Accept(); err == nil {
			defer conn.Close()
			<-answered
			cancel()
			<-t.Context().Done()
		}
	}()
	c.ctx = ctx
	out, code := c.run("check")
	assert.Equal(t, 130, code)
	assert.Contains(t, out, "b     ✔ docker 28.2.2, linux/amd64")
	assert.NotContains(t, out, "cannot be reached")
	assert.Contains(t, out, "error: interrupted: a had not answered\n")
}

func TestProgressNamesTheHostsThatHaveNotAnswered(t *testing.T) {
	w := newWaiting([]inventory.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}})
	assert.Equal(t, "0 of 4 hosts answered, waiting for a, b and 2 more", w.text())
	w.answered(0)
	w.answered(2)
	assert.Equal(t, "2 of 4 hosts answered, waiting for b, d", w.text())
}

// What people type by mistake has an answer that says what to type.
func TestMistakesOfHostCheck(t *testing.T) {
	c := newCommand(t, "hosts: [{name: web1, engine: oci}, {name: db1, engine: oci}]")
	for _, test := range []struct{ args, want string }{
		{"wbe1", `there is no host "wbe1" in inventory.yaml, did you mean "web1"?`},
		{"elsewhere", `there is no host "elsewhere" in inventory.yaml, which has web1, db1`},
		{"web1,db1", `"web1,db1": separate the names of hosts by spaces`},
		{"ssh://deploy@web1", `"ssh://deploy@web1" is an address, and this command takes names of hosts: deployster host list shows them`},
		{"attribute:stack==prod", `write --query 'attribute:stack==prod'`},
		{"web1 web1", "host web1 is named twice"},
		{"web1 --query name==web1", "name hosts, or give --query, not both"},
		{"--inventory hosts.yaml", "there is no inventory hosts.yaml: list the hosts in it, or name another with --inventory"},
		{"--query stack==prod", `did you mean "attribute:stack"?`},
	} {
		out, code := c.run(append([]string{"check"}, strings.Fields(test.args)...)...)
		assert.Equal(t, 3, code, "%s", test.args)
		assert.Contains(t, out, test.want)
	}
}
