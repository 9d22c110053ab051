//go:build controllers

package statuses

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// stage is a stage of a pipeline, whose object real controllers deploy.
type stage struct {
	name   string
	object fields                // as a definition names it
	bring  func(revision string) // has its controllers bring a revision there
	well   func() string         // the revision that its workload runs wholly and well now, or ""
}

// story is a pipeline of the stages dev, staging and prod, with a scheduler that goes on until the test ends.
type story struct {
	testing.TB
	*client
	dir    string
	stages []stage

	mu    sync.Mutex
	asked []string // STAGE REVISION
}

func newStory(t testing.TB, c *client, stages ...stage) *story {
	t.Helper()
	s := &story{TB: t, client: c, dir: t.TempDir(), stages: stages}
	receiver := httptest.NewServer(http.HandlerFunc(s.promote))
	t.Cleanup(receiver.Close)
	var defined []any
	for i, one := range stages {
		stage := fields{"name": one.name, "objects": []any{one.object}}
		if i > 0 {
			stage["strategy"] = "webhook"
			stage["webhook"] = fields{"url": receiver.URL, "key_file": "secrets/hook.key", "timeout": "5m"}
		}
		defined = append(defined, stage)
	}
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "secrets"), 0o700))
	for name, content := range map[string]string{
		"secrets/hook.key": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
		"inventory.yaml":   manifest(fields{"clusters": []any{fields{"name": "dev", "kubeconfig": c.Kubeconfig}}}),
		"shop.yaml":        manifest(fields{"pipeline": "shop", "stages": defined, "promotion": fields{"policy": "single"}}),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600))
	}
	s.deployster("pipeline", "apply", "-f", "shop.yaml", "--yes")
	scheduler := exec.Command(c.Program(), "pipeline", "run", "shop")
	scheduler.Dir, scheduler.SysProcAttr = s.dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	scheduler.Stdout, scheduler.Stderr = &said, &said
	require.NoError(t, scheduler.Start())
	t.Cleanup(func() {
		_ = scheduler.Process.Signal(syscall.SIGTERM)
		_ = scheduler.Wait() // which says that it was interrupted
		if t.Failed() {
			t.Logf("the scheduler wrote:\n%s", said.String())
		}
	})
	return s
}

func (s *story) deployster(args ...string) string {
	s.Helper()
	command := exec.Command(s.Program(), args...)
	command.Dir = s.dir
	said, err := command.CombinedOutput()
	require.NoError(s, err, "deployster %s: %s", args, said)
	return string(said)
}

// promote brings a revision to a stage, as the program does that a webhook asks. The stage before must
// truly run the revision then.
func (s *story) promote(_ http.ResponseWriter, request *http.Request) {
	var asks struct{ Stage, Revision string }
	assert.NoError(s, json.NewDecoder(request.Body).Decode(&asks))
	s.mu.Lock()
	s.asked = append(s.asked, asks.Stage+" "+asks.Revision)
	s.mu.Unlock()
	for i, one := range s.stages {
		if one.name == asks.Stage {
			assert.Equal(s, asks.Revision, s.stages[i-1].well(), "%s is asked to run it, and %s does not run it well", one.name, s.stages[i-1].name)
			one.bring(asks.Revision)
		}
	}
}

// comesTo waits until the last stage runs a revision, and the pipeline has recorded that.
func (s *story) comesTo(revision string) {
	s.Helper()
	kubetest.Until(s, revision+" has come to all stages", func() (string, bool) {
		said := s.deployster("log", "list", "--all")
		for line := range strings.Lines(said) {
			if strings.Contains(line, "promotion-run-finished") && strings.Contains(line, "revision "+revision[:min(len(revision), 12)]) {
				return "", true
			}
		}
		return said, false
	})
}

// promoted checks which revisions were promoted, once to each stage and in this order.
func (s *story) promoted(revisions ...string) {
	s.Helper()
	var wanted []string
	for _, revision := range revisions {
		for _, one := range s.stages[1:] {
			wanted = append(wanted, one.name+" "+revision)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(s, wanted, s.asked, "each good revision is promoted once to each stage, and no other")
}

var stageNames = []string{"dev", "staging", "prod"}

// A good revision of a Kustomization goes through three stages, whose controllers reconcile all the
// time. One whose Pods never start does not.
func TestRevisionsGoThroughKustomizations(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	c.StartControllers(t)
	startFlux(t, c, "kustomize-controller")
	var stages []stage
	var all []*kustomized
	commits := map[string]string{} // by version of the shop
	for _, name := range stageNames {
		k := newKustomized(t, c, name, "", rolledOut)
		if len(all) > 0 {
			k.repository = all[0].repository
		}
		k.branch = name
		all = append(all, k)
		stages = append(stages, stage{
			name: name, object: fields{"cluster": "dev", "kind": "Kustomization", "namespace": k.namespace, "name": "shop", "part": "commit"},
			bring: func(commit string) { k.fetches("", commit) },
			well: func() string {
				return commits[rolledOut(k.must(t, http.MethodGet, k.workload(), "", nil))]
			},
		})
	}
	push := func(version, image string, change ...func(spec fields)) string {
		commit := all[0].repository.commit(map[string]string{"shop.yaml": manifest(shop(version, image, change...))})
		commits[version] = commit
		stages[0].bring(commit)
		return commit
	}
	first := push("v1", pause)
	for _, k := range all {
		k.fetches("", first)
		k.declare("", fields{"interval": "2s", "retryInterval": "3s", "timeout": "8s"})
		k.applied(k.branch + "@sha1:" + first)
	}
	s := newStory(t, c, stages...)
	good := push("v2", pause)
	s.comesTo(good)
	bad := push("v3", missing)
	for range 2 {
		all[0].until("v3 fails", func(live fields) bool {
			return strings.HasSuffix(text(live, "status", "lastAttemptedRevision"), bad) && text(condition(live, "Ready"), "status") == "False"
		})
		all[0].until("it tries again", func(live fields) bool { return text(condition(live, "Ready"), "status") == "Unknown" })
	}
	slow := push("v4", pause, slowly)
	s.comesTo(slow)
	s.promoted(good, slow)
}

// A good version of a chart goes through three stages. One whose Pods never start is rolled back in
// the first, and does not.
func TestVersionsGoThroughHelmReleases(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	c.StartControllers(t)
	startFlux(t, c, "helm-controller")
	var stages []stage
	var all []*released
	commits := map[string]string{} // by version of the chart
	for _, name := range stageNames {
		h := newReleased(t, c, name, "")
		if len(all) > 0 {
			h.repository = all[0].repository
		}
		all = append(all, h)
		stages = append(stages, stage{
			name: name, object: fields{"cluster": "dev", "kind": "HelmRelease", "namespace": h.namespace, "name": "shop"},
			bring: func(version string) { h.fetches("", commits[version], version) },
			well:  func() string { return rolledOut(h.must(t, http.MethodGet, h.workload(), "", nil)) },
		})
	}
	push := func(version, image string, change ...func(spec fields)) {
		commits[version] = all[0].commits(version, image, change...)
		stages[0].bring(version)
	}
	push("1.0.0", pause)
	for i, h := range all {
		stages[i].bring("1.0.0")
		h.declare("", fields{"interval": "2s", "timeout": "10s", "upgrade": fields{"remediation": fields{"retries": 0, "remediateLastFailure": true, "strategy": "rollback"}}})
		h.runs("1.0.0")
	}
	s := newStory(t, c, stages...)
	push("1.1.0", pause)
	s.comesTo("1.1.0")
	push("1.2.0", missing)
	all[0].until("1.2.0 is rolled back", func(live fields) bool { return text(condition(live, "Remediated"), "status") == "True" })
	push("1.3.0", pause, slowly)
	s.comesTo("1.3.0")
	s.promoted("1.1.0", "1.3.0")
}

// A good image goes through three stages that are Rollouts with a canary. One whose Pods never start does not.
func TestImagesGoThroughRollouts(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	c.StartControllers(t)
	repository := images(t, c, "v1", "v2", "v3", "v4")
	install(t, c, "argo-rollouts")
	start(t, c, "argo-rollouts", "--leader-elect=false", "--metricsPort", portOf(port(t)), "--healthzPort", portOf(port(t)))
	canary := func(spec fields) {
		spec["progressDeadlineSeconds"] = 20
		spec["strategy"] = fields{"canary": fields{"maxSurge": 1, "maxUnavailable": 0, "steps": []any{fields{"setWeight": 50}, fields{"pause": fields{"duration": 3}}}}}
	}
	var stages []stage
	var all []*workload
	for _, name := range stageNames {
		w := &workload{newRecorder(t, c, name, version(t, "argo-rollouts"), ""), "rollouts", "Rollout", "argoproj.io/v1alpha1", repository, 2}
		w.follows(w.path(), objectOfRollout())
		all = append(all, w)
		stages = append(stages, stage{
			name: name,
			object: fields{
				"cluster": "dev", "api_version": w.api, "kind": "Rollout", "namespace": w.namespace, "name": "shop",
				"revision": "{.spec.template.spec.containers[0].image}", "part": "tag", "ready": "{.status.phase}=Healthy",
			},
			bring: func(tag string) { w.declare("", tag, canary) },
			well:  w.readyTag,
		})
		w.declare("", "v1", canary)
		w.until("v1 is well", func(live fields) bool { return text(live, "status", "phase") == "Healthy" && seen(live) })
	}
	s := newStory(t, c, stages...)
	stages[0].bring("v2")
	s.comesTo("v2")
	stages[0].bring("missing")
	all[0].until("it fails", func(live fields) bool { return text(live, "status", "phase") == "Degraded" })
	stages[0].bring("v3")
	s.comesTo("v3")
	s.promoted("v2", "v3")
}

// readyTag is the tag of the image that all Pods of a workload run, ready and as many as wanted, or "".
func (w *workload) readyTag() string {
	list := w.must(w, http.MethodGet, "/api/v1/namespaces/"+w.namespace+"/pods", "", nil)
	tags := map[string]int{}
	for _, pod := range list["items"].([]any) {
		pod := pod.(fields)
		if text(pod, "metadata", "deletionTimestamp") != "" {
			continue
		}
		image := text(pod["spec"].(fields)["containers"].([]any)[0], "image")
		if text(condition(pod, "Ready"), "status") != "True" {
			image = "none"
		}
		tags[image[strings.LastIndexByte(image, ':')+1:]]++
	}
	for tag, pods := range tags {
		if len(tags) == 1 && pods == w.replicas {
			return tag
		}
	}
	return fmt.Sprint(tags)
}
