package engines

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/inventory"
)

func parse(args ...string) (*app.App, error) {
	a := app.New()
	a.Global.Engine = Kubernetes
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	RegisterKubernetes(flags, &a.Global.Kubernetes)
	return a, flags.Parse(args)
}

func TestWhatNoClusterTakesIsRefusedBeforeItIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		flags Flags
		want  string // "" takes it
	}{
		"everything": {
			args:  []string{"--node-selector", "disk=ssd", "--node-selector", "role=", "--toleration", "a=b:NoSchedule", "--toleration", "c", "--service-account", "x", "--copy-workspace"},
			flags: Flags{typesImage: "r.example/x"},
		},
		"no repository":          {want: "--types-image registry.example/team/deployster"},
		"a level":                {args: []string{"--pod-security", "privileged"}, flags: Flags{typesImage: "r.example/x"}, want: "it must be restricted or baseline"},
		"a network":              {flags: Flags{typesImage: "r.example/x", Network: "none"}, want: "--network none"},
		"a bound of processes":   {flags: Flags{typesImage: "r.example/x", Pids: 1}, want: "--pids"},
		"a toleration":           {args: []string{"--toleration", "a:Never"}, flags: Flags{typesImage: "r.example/x"}, want: `--toleration: toleration "a:Never": write KEY=VALUE:EFFECT`},
		"a label without value":  {args: []string{"--node-selector", "disk"}, want: `"disk" is not a label: write KEY=VALUE`},
		"two values of a label":  {args: []string{"--node-selector", "a=b", "--node-selector", "a=c"}, want: `a node has one value of a, and this asks for "b" and "c"`},
		"the same label, twice":  {args: []string{"--node-selector", "a=b", "--node-selector", "a=b"}, flags: Flags{typesImage: "r.example/x"}},
		"a value without a name": {args: []string{"--node-selector", "=b"}, want: `"=b" is not a label`},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := parse(c.args...)
			if err == nil {
				_, err = namedCluster(a, c.flags)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestFlagsOfAClusterAreForOneAlone(t *testing.T) {
	for _, arg := range []string{
		"--kubeconfig=x", "--context=x", "--namespace=x", "--pod-security=baseline", "--image-pull-secret=x",
		"--node-selector=a=b", "--toleration=a", "--service-account=x", "--copy-workspace",
	} {
		a, err := parse(arg)
		require.NoError(t, err)
		assert.NoError(t, onlyForKubernetes(a), "%s", arg)
		a.Global.Engine = Docker
		name, _, _ := strings.Cut(arg, "=")
		err = onlyForKubernetes(a)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), name+" is for --engine kubernetes"), "%s: %v", arg, err)
	}
}

// What the log says of an engine must hold for runs that are started in other directories.
func TestFilesOfAHostAreBelowTheDirectoryOfItsInventory(t *testing.T) {
	file := t.TempDir() + "/inventory.yaml"
	dir := strings.TrimSuffix(file, "/inventory.yaml")
	got := reachOf(inventory.Host{
		TLS:        &inventory.TLS{CA: "ca.pem", Cert: "/keys/cert.pem"},
		Kubernetes: &inventory.Kubernetes{Kubeconfig: "keys/kubeconfig", Context: "prod"},
	}, file)
	if got.tls != (runs.EngineTLS{CA: dir + "/ca.pem", Cert: "/keys/cert.pem"}) || got.cluster.Kubeconfig != dir+"/keys/kubeconfig" || got.cluster.Context != "prod" {
		t.Errorf("%+v", got)
	}
	assert.Empty(t, reachOf(inventory.Host{Kubernetes: &inventory.Kubernetes{}}, file).cluster.Kubeconfig, "whoever names no file")
}

// The hosts of one machine share its engine. One that cannot be opened is tried again
// for the next host, and nobody waits for that beyond its own time.
func TestHostsOfThisMachineShareItsEngine(t *testing.T) {
	opened, away := 0, errors.New("away")
	l := newLocal(func(context.Context) (*work.Connection, error) {
		if opened++; opened == 1 {
			return nil, away
		}
		return &work.Connection{}, nil
	})
	if _, err := l.connect(t.Context()); !errors.Is(err, away) {
		t.Errorf("error %v, want %v", err, away)
	}
	first, err := l.connect(t.Context())
	require.NoError(t, err)
	if second, err := l.connect(t.Context()); err != nil || second != first || opened != 2 {
		t.Errorf("another host has %p (%v), the first %p; opened %d times", second, err, first, opened)
	}
	busy := newLocal(nil)
	busy.turn <- struct{}{}
	late, cancel := context.WithCancelCause(t.Context())
	cancel(away)
	_, err = busy.connect(late)
	assert.ErrorIs(t, err, away, "error")
}

func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	os.Exit(m.Run())
}
