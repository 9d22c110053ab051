package cli_test

import (
	"archive/tar"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/registrytest"
	"github.com/deployster-go/deployster/internal/waittest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// makers is a workspace in which packages are built by a program that does what files say.
type makers struct {
	*site
	flags []string // of what reaches engines
}

const toolchain = `
group: base
converge: 2
job:
  image: MAKER
  args: ["{{ package.name }}"]
  env: {VERSION: "{{ package.version }}"}
  network: none
  plugs: [{path: THINGS, container_path: /world}]
  reuse: true
packages:
  glibc: {version: "2.29", released: glibc-2.28, build: [gcc, make]}
  make: {version: "4.3", released: make-4.2, build: [gcc, make], run: [glibc]}
  gcc: {version: "9.1", released: gcc-8.2, build: [gcc, make], run: [glibc]}
  curl: {version: "7.6", build: [gcc, make]}
  manual: {version: "1.0"}
`

func newMakers(t *testing.T, flags ...string) *makers {
	m := &makers{newSite(t, " {}"), flags}
	m.write("packages.yaml", strings.NewReplacer("MAKER", maker, "THINGS", filepath.Join(m.dir, "things")).Replace(toolchain))
	return m
}

// newOCIMakers has this machine as the only worker, without a daemon.
func newOCIMakers(t *testing.T) *makers { return newMakers(t, "--engine", "oci", "--pull", "never") }

func (m *makers) build(args ...string) *run {
	if args[0] == "submit" || args[0] == "run" {
		args = slices.Concat(args, m.flags)
	}
	return m.start(append([]string{"build"}, args...)...)
}

// must is a command that succeeds.
func (m *makers) must(args ...string) string {
	r := m.build(args...)
	m.wantEnd(r, 0)
	return r.out.String()
}

func (m *makers) submit(flags ...string) {
	m.must(append([]string{"submit", "-f", "packages.yaml"}, flags...)...)
}

func (m *makers) making(name string) {
	m.Helper()
	waittest.Until(m, func() bool {
		_, err := os.Stat(m.thing(name + ".began"))
		return err == nil
	}, "a container makes "+name)
}

func (m *makers) count(group, name string) (n int) {
	for _, e := range m.events() {
		if e.Deployment == group && e.Name == name {
			n++
		}
	}
	return n
}

// artifacts are what the jobs of a group have built.
func (m *makers) artifacts(group string) map[int]string {
	all := map[int]string{}
	for _, e := range m.events() {
		if id, job, _ := record.Parse(e.Target); id == group && e.Name == record.JobFinished {
			assert.Empty(m, all[job], "job %d of %s is built twice", job, group)
			all[job] = record.Decode[record.Finished](e).Artifact
		}
	}
	return all
}

// The second signal kills no job: its group goes on with the next dispatcher.
func TestADispatcherThatIsInterruptedTwiceSaysWhatBecomesOfItsJobs(t *testing.T) {
	t.Parallel()
	m := newOCIMakers(t)
	m.submit()
	m.hold("manual")
	r := m.build("run")
	m.making("manual")
	for _, says := range []string{"running jobs finish first; interrupt again to end now", "ending now: jobs go on in their containers, and the next build run collects them"} {
		m.signal(r, os.Interrupt)
		r.out.until(t, says)
	}
	if code := m.exit(r); code != 130 || m.count("base-1", record.JobFailed) > 0 || len(m.artifacts("base-1")) == 8 {
		t.Errorf("it ended with %d\n%s", code, r.out)
	}
	m.release("manual")
	m.must("run", "--until-idle")
	assert.Len(t, m.artifacts("base-1"), 8, "of 8 jobs there")
}

func TestACanceledBuildStopsAndIsRetriedWithWhatItHas(t *testing.T) {
	t.Parallel()
	m := newOCIMakers(t)
	m.submit()
	m.hold("gcc")
	r := m.build("run")
	m.making("gcc")
	m.must("cancel", "base-1", "--reason", "the wrong branch")
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.GroupCanceled })
	m.release("gcc")
	built := len(m.artifacts("base-1"))
	m.touch("curl.fail")
	m.must("retry", "base-1")
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.GroupFailed })
	require.NoError(t, errors.Join(os.Remove(m.thing("curl.fail")), r.Process.Signal(os.Interrupt)))
	m.wantEnd(r, 130)
	all := len(m.artifacts("base-1"))
	assert.True(t, built >= 2 && all == 7, "%d jobs were built before the cancel, and %d with the retry", built, all)
	m.must("retry", "base-1", "--failed-only")
	m.must("run", "--until-idle")
	assert.Equal(t, 8, len(m.artifacts("base-1")), "of 8 jobs are built")
}

// One of two Docker Engines is killed with what it builds; that is built on the other one,
// and again on the first when that is there again. The dispatcher is killed, too, and the next
// one waits for what still runs.
func TestBuildsOnTwoDockerEnginesOfWhichOneIsLost(t *testing.T) {
	m := newMakers(t, "--inventory", "inventory.yaml", "--pull", "never")
	engines := dockerEngines(t, 2)
	inventory := "hosts:\n"
	for i, e := range engines {
		inventory += fmt.Sprintf("  - {name: worker%d, endpoint: %q, slots: 1}\n", i, e.Address())
		load(t, e.Address(), maker)
	}
	m.write("inventory.yaml", inventory)
	m.submit()
	m.hold("glibc")
	m.hold("manual")
	first := m.build("run")
	m.making("glibc")
	m.making("manual")
	m.kill(first)
	second := m.build("run", "--lost-for", "1s")
	lost := m.workerOf("base-1", 8)
	engines[lost].Kill()
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.JobLost && e.Target == record.Job("base-1", 8) })
	m.release("manual")
	m.release("glibc")
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.GroupFinished })
	if built := m.artifacts("base-1"); len(built) != 8 {
		t.Errorf("of 8 jobs there are %v\n%s", built, second.out)
	}
	if n := m.count("base-1", record.JobStarted); n != 9 {
		t.Errorf("there began %d jobs, not the 8 and the one that was lost\n%s", n, second.out)
	}

	// Both are killed, so that there is no other: the job waits until one is there again.
	engines[lost].Start()
	require.NoError(t, os.Remove(m.thing("manual.began")))
	m.hold("manual")
	m.submit("--no-reuse")
	m.making("manual")
	for _, e := range engines {
		e.Kill()
	}
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.JobLost && e.Target == record.Job("base-2", 8) })
	m.release("manual")
	for _, e := range engines {
		e.Start()
	}
	m.until(1, func(e deploylog.Event) bool { return e.Name == record.GroupFinished && e.Deployment == "base-2" })
	m.interrupt(second)
	if built := m.artifacts("base-2"); len(built) != 8 {
		t.Errorf("of 8 jobs there are %v\n%s", built, second.out)
	}
	m.must("run", "--until-idle") // which looks at both once more
	for _, e := range engines {
		m.leftNoJob(e)
	}
}

// workerOf is the number of the worker that began a job last.
func (m *makers) workerOf(group string, job int) (number int) {
	for _, e := range m.events() {
		if e.Name == record.JobStarted && e.Target == record.Job(group, job) {
			require.NoError(m, must.Fail(fmt.Sscanf(record.Decode[record.Started](e).Worker, "worker%d", &number)))
		}
	}
	return number
}

// leftNoJob checks that no container of a job is on an engine.
func (m *makers) leftNoJob(on *dockerdtest.Engine) {
	m.Helper()
	e := must.Get(docker.Open(m.Context(), docker.Options{Host: on.Address()}))(m)
	left, err := e.Containers(m.Context(), map[string]string{invoke.LabelKind: jobs.KindJob})
	if err := errors.Join(err, e.Close()); err != nil || len(left) > 0 {
		m.Errorf("left on %s: %+v (%v)", on.Address(), left, err)
	}
}

// inRegistry has what is built pushed to a registry on this machine, signed, and returns the
// repository and the public key.
func (m *makers) inRegistry() (repository string, public ed25519.PublicKey) {
	m.Setenv("DOCKER_CONFIG", m.dir)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(m, err)
	key := must.Get(x509.MarshalPKCS8PrivateKey(private))(m)
	m.write("build.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	repository = registrytest.Serve(m, new(registrytest.Registry)).Host + "/base"
	text := must.Get(os.ReadFile(filepath.Join(m.dir, "packages.yaml")))(m)
	m.write("packages.yaml", "artifacts: "+repository+string(text))
	return repository, public
}

// finished are how the jobs of a group ended that have finished.
func (m *makers) finished(group string) map[int]record.Finished {
	all := map[int]record.Finished{}
	for _, e := range m.events() {
		if id, job, _ := record.Parse(e.Target); id == group && e.Name == record.JobFinished {
			all[job] = record.Decode[record.Finished](e)
		}
	}
	return all
}

// pulled is what another client of registries finds under a reference: the files of the layer.
func pulled(t *testing.T, reference string) map[string]string {
	layers, err := imageAt(t, reference).Layers()
	require.True(t, err == nil && len(layers) == 1, "%s has %d layers: %v", reference, len(layers), err)
	content := must.Get(layers[0].Uncompressed())(t)
	files := map[string]string{}
	for in := tar.NewReader(content); ; {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text := must.Get(io.ReadAll(in))(t)
		files[entry.Name] = string(text)
	}
}

func imageAt(t *testing.T, reference string) v1.Image {
	ref := must.Get(name.ParseReference(reference))(t)
	image := must.Get(remote.Image(ref))(t)
	return image
}

// signed is the statement that is signed of an artifact, where cosign looks for it, checked
// with nothing but the public key.
func signed(t *testing.T, reference string, public ed25519.PublicKey) (statement struct {
	Subject   []struct{ Digest map[string]string }
	Predicate struct {
		BuildDefinition struct{ ExternalParameters struct{ Package string } }
	}
}) {
	t.Helper()
	at, digest, _ := strings.Cut(reference, "@")
	layers, err := imageAt(t, at+":"+strings.Replace(digest, ":", "-", 1)+".att").Layers()
	require.True(t, err == nil && len(layers) == 1, "there are %d attestations of %s: %v", len(layers), reference, err)
	content := must.Get(layers[0].Uncompressed())(t)
	var envelope struct {
		PayloadType string
		Payload     []byte
		Signatures  []struct{ Sig []byte }
	}
	err = json.NewDecoder(content).Decode(&envelope)
	require.True(t, err == nil && len(envelope.Signatures) == 1, "%+v: %v", envelope, err)
	text := fmt.Sprintf("DSSEv1 %d %s %d %s", len(envelope.PayloadType), envelope.PayloadType, len(envelope.Payload), envelope.Payload)
	if !ed25519.Verify(public, []byte(text), envelope.Signatures[0].Sig) {
		t.Errorf("the signature of what is said of %s is wrong", reference)
	}
	require.NoError(t, json.Unmarshal(envelope.Payload, &statement))
	return statement
}

// What is built is pushed with its signed provenance, so that another client reads and checks
// it; what is altered here is built again, and is the same; and a workspace that has nothing
// uses what was released there.
func TestWhatIsBuiltIsInARegistryForOthers(t *testing.T) {
	m := newOCIMakers(t)
	repository, public := m.inRegistry()
	m.submit()
	m.must("run", "--until-idle", "--sign-key", "build.key")
	built := m.finished("base-1")
	require.Len(t, built, 8, "of 8 jobs there are %v", built)
	for job, f := range built {
		assert.Equal(t, repository+"@"+f.Artifact, f.Pushed, "job %d is at %q", job, f.Pushed)
		if made := pulled(t, f.Pushed)["made"]; !strings.HasPrefix(made, f.Metadata["MADE"]) || len(made) != 65 {
			t.Errorf("job %d is there with %q, and said %v", job, made, f.Metadata)
		}
		if s := signed(t, f.Pushed, public); len(s.Subject) != 1 || "sha256:"+s.Subject[0].Digest["sha256"] != f.Artifact || s.Predicate.BuildDefinition.ExternalParameters.Package == "" {
			t.Errorf("of job %d is said %+v", job, s)
		}
	}

	m.alter(built[1].Artifact)
	m.submit()
	m.must("run", "--until-idle", "--sign-key", "build.key")
	again := m.finished("base-2")
	for job, f := range again {
		if f.Artifact != built[job].Artifact || f.Pushed != built[job].Pushed || (job == 1) != (f.Reused == "") {
			t.Errorf("job %d is %+v", job, f)
		}
	}
	if len(again) != 8 || m.count("base-2", record.JobLost) != 1 {
		t.Errorf("of 8 jobs there are %v, and %d were lost", again, m.count("base-2", record.JobLost))
	}

	other := newMakers(t, m.flags...)
	other.write("packages.yaml", fmt.Sprintf("group: apps\nartifacts: %s\njob: {image: %q, args: [\"{{ package.name }}\"], network: none}\npackages:\n  glibc: {released: {artifact: %q}}\n  app: {build: [glibc]}\n",
		repository, maker, built[1].Artifact))
	other.submit("--touched", "app")
	other.must("run", "--until-idle")
	alone := other.finished("apps-1")
	other.write("packages.yaml", fmt.Sprintf("group: apps\njob: {image: %q, args: [app], network: none}\npackages:\n  app: {}\n", maker))
	other.submit()
	other.must("run", "--until-idle")
	if without := other.finished("apps-2"); len(alone) != 1 || len(without) != 1 || alone[1].Artifact == without[1].Artifact {
		t.Errorf("with what was released it is %v, without %v", alone, without)
	}
}

// alter changes an artifact on the disk, as nobody may.
func (m *makers) alter(digest string) {
	sum := strings.TrimPrefix(digest, "sha256:")
	blobs := filepath.Join(m.dir, ".deployster/artifacts/blobs/sha256")
	var manifest struct{ Layers []struct{ Digest string } }
	text, err := os.ReadFile(filepath.Join(blobs, sum))
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	require.NoError(m, err)
	layer := filepath.Join(blobs, strings.TrimPrefix(manifest.Layers[0].Digest, "sha256:"))
	content := must.Get(os.ReadFile(layer))(m)
	content[600] ^= 1
	require.NoError(m, os.WriteFile(layer, content, 0o600))
}
