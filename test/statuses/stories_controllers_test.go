//go:build controllers

package statuses

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
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
	dir       string
	policy    string
	stages    []stage
	defined   []any
	scheduler *exec.Cmd

	mu      sync.Mutex
	asked   []string // STAGE REVISION
	keys    []string // of these: a try that asks again, because its scheduler died, has the same
	refuses int      // so many requests are refused before one is done
	lost    string   // STAGE REVISION that is asked for and never brought
	held    string   // STAGE REVISION that is asked for and brought when release is closed
	release chan struct{}
}

func newStory(t testing.TB, c *client, stages ...stage) *story {
	t.Helper()
	return newStoryOf(t, c, "single", stages...)
}

func newStoryOf(t testing.TB, c *client, policy string, stages ...stage) *story {
	t.Helper()
	return newStoryWith(t, c, policy, nil, stages...)
}

// newStoryWith changes how the stages are defined, unless change is nil.
func newStoryWith(t testing.TB, c *client, policy string, change func(stage fields), stages ...stage) *story {
	t.Helper()
	s := &story{TB: t, client: c, dir: t.TempDir(), policy: policy, stages: stages, release: make(chan struct{})}
	receiver := httptest.NewServer(http.HandlerFunc(s.promote))
	t.Cleanup(receiver.Close)
	for i, one := range stages {
		stage := fields{"name": one.name, "objects": []any{one.object}}
		if i > 0 {
			stage["strategy"] = "webhook"
			stage["webhook"] = fields{"url": receiver.URL, "key_file": "secrets/hook.key", "timeout": "5m"}
		}
		if change != nil {
			change(stage)
		}
		s.defined = append(s.defined, stage)
	}
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "secrets"), 0o700))
	for name, content := range map[string]string{
		"secrets/hook.key": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
		"secrets/token":    forgetest.Token,
		"inventory.yaml":   manifest(fields{"clusters": []any{fields{"name": "dev", "kubeconfig": c.Kubeconfig}}}),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600))
	}
	s.defines()
	var said strings.Builder
	s.starts(&said)
	t.Cleanup(func() {
		s.ends(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the scheduler wrote:\n%s", said.String())
		}
	})
	return s
}

// defines applies the pipeline.
func (s *story) defines() {
	s.Helper()
	d := fields{"pipeline": "shop", "stages": s.defined, "promotion": fields{"policy": s.policy, "retry_after": "1s"}}
	require.NoError(s, os.WriteFile(filepath.Join(s.dir, "shop.yaml"), []byte(manifest(d)), 0o600))
	s.deployster("pipeline", "apply", "-f", "shop.yaml", "--yes")
}

// starts starts a scheduler.
func (s *story) starts(said io.Writer) {
	s.Helper()
	s.scheduler = exec.Command(s.Program(), "pipeline", "run", "shop")
	s.scheduler.Dir, s.scheduler.SysProcAttr = s.dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.scheduler.Stdout, s.scheduler.Stderr = said, said
	require.NoError(s, s.scheduler.Start())
}

// ends ends the scheduler.
func (s *story) ends(by syscall.Signal) {
	_ = s.scheduler.Process.Signal(by)
	_ = s.scheduler.Wait() // which says that it was interrupted
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
func (s *story) promote(w http.ResponseWriter, request *http.Request) {
	var asks struct{ Key, Stage, Revision string }
	assert.NoError(s, json.NewDecoder(request.Body).Decode(&asks))
	s.mu.Lock()
	refuses, lost, again := s.refuses > 0, s.lost == asks.Stage+" "+asks.Revision, slices.Contains(s.keys, asks.Key)
	held := s.held == asks.Stage+" "+asks.Revision
	switch {
	case again:
	case refuses:
		s.refuses--
	default:
		s.asked, s.keys = append(s.asked, asks.Stage+" "+asks.Revision), append(s.keys, asks.Key)
	}
	s.mu.Unlock()
	if refuses {
		http.Error(w, "not now", http.StatusServiceUnavailable)
	}
	if again || refuses || lost {
		return
	}
	for i, one := range s.stages {
		if one.name == asks.Stage {
			assert.Equal(s, asks.Revision, s.stages[i-1].well(), "%s is asked to run it, and %s does not run it well", one.name, s.stages[i-1].name)
			if held {
				<-s.release
			}
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

// is waits until a stage is asked to run a revision.
func (s *story) is(asked string) {
	s.Helper()
	kubetest.Until(s, "it is asked for "+asked, func() (string, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Sprint(s.asked), slices.Contains(s.asked, asked)
	})
}

var stageNames = []string{"dev", "staging", "prod"}

// fleet is a Kustomization for each stage, of one repository with a branch for each, which are reconciled
// all the time. All run v1 at first.
type fleet struct {
	testing.TB
	all     []*kustomized
	stages  []stage
	commits map[string]string // by version of the shop
}

func newFleet(t *testing.T, c *client) *fleet {
	c.StartControllers(t)
	startFlux(t, c, "kustomize-controller")
	f := &fleet{TB: t, commits: map[string]string{}}
	for _, name := range stageNames {
		k := newKustomized(t, c, name, "", rolledOut)
		if len(f.all) > 0 {
			k.repository = f.all[0].repository
		}
		k.branch = name
		f.all = append(f.all, k)
		f.stages = append(f.stages, stage{
			name: name, object: fields{"cluster": "dev", "kind": "Kustomization", "namespace": k.namespace, "name": "shop", "part": "commit"},
			bring: func(commit string) { k.fetches("", commit) },
			well: func() string {
				return f.commits[rolledOut(k.must(t, http.MethodGet, k.workload(), "", nil))]
			},
		})
	}
	first := f.push("v1", pause)
	for _, k := range f.all {
		k.fetches("", first)
		k.declare("", fields{"interval": "2s", "retryInterval": "3s", "timeout": "8s"})
		k.applied(k.branch + "@sha1:" + first)
	}
	return f
}

// push brings a version of the shop to the first stage.
func (f *fleet) push(version, image string, change ...func(spec fields)) (commit string) {
	f.Helper()
	commit = f.all[0].repository.commit(map[string]string{"shop.yaml": manifest(shop(version, image, change...))})
	f.commits[version] = commit
	f.stages[0].bring(commit)
	return commit
}

// A good revision of a Kustomization goes through three stages. One whose Pods never start does not.
func TestRevisionsGoThroughKustomizations(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	f := newFleet(t, c)
	s := newStory(t, c, f.stages...)
	good := f.push("v2", pause)
	s.comesTo(good)
	bad := f.push("v3", missing)
	for range 2 {
		f.all[0].until("v3 fails", func(live fields) bool {
			return strings.HasSuffix(text(live, "status", "lastAttemptedRevision"), bad) && text(condition(live, "Ready"), "status") == "False"
		})
		f.all[0].until("it tries again", func(live fields) bool { return text(condition(live, "Ready"), "status") == "Unknown" })
	}
	slow := f.push("v4", pause, slowly)
	s.comesTo(slow)
	s.promoted(good, slow)
}

// Whatever happens to schedulers and to those who promote, and whoever pushes many revisions or has to
// approve one, each revision is promoted once where it is to be.
func TestRevisionsAreWellAndPromotedOnceWhateverHappens(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	f := newFleet(t, c)
	s := newStory(t, c, f.stages...)
	dev := f.all[0]

	s.ends(syscall.SIGKILL)
	missed := f.push("v2", pause) // while nobody promotes
	dev.applied("dev@sha1:" + missed)
	s.starts(io.Discard)
	s.comesTo(missed)

	s.mu.Lock()
	s.refuses = 2
	s.mu.Unlock()
	refused := f.push("v3", pause)
	s.is("staging " + refused)
	s.ends(syscall.SIGKILL) // while it is brought to staging
	s.starts(io.Discard)
	s.comesTo(refused)

	replaced := dev.repository.commit(map[string]string{"shop.yaml": manifest(shop("v4", pause))})
	s.mu.Lock()
	s.lost = "staging " + replaced
	s.mu.Unlock()
	f.commits["v4"] = replaced
	f.stages[0].bring(replaced)
	s.is("staging " + replaced)
	newer := f.push("v5", pause) // while the one before is still to come to staging
	s.comesTo(newer)

	for _, version := range []string{"v6", "v7", "v8"} { // each before the one before has settled
		f.push(version, pause)
	}
	last := f.push("v9", pause)
	s.comesTo(last)

	s.defined[2].(fields)["manual"] = true
	s.defines()
	approved := f.push("v10", pause)
	kubetest.Until(t, "it waits for approval", func() (string, bool) {
		said := s.deployster("pipeline", "status", "shop")
		return said, strings.Contains(said, "waits for approval")
	})
	f.all[2].rests()
	assert.NotContains(t, s.asked, "prod "+approved, "it is promoted before somebody approves it")
	s.deployster("pipeline", "approve", "shop", "prod", approved)
	s.comesTo(approved)

	wanted := []string{"staging " + missed, "prod " + missed, "staging " + refused, "prod " + refused, "staging " + replaced, "staging " + newer, "prod " + newer}
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, wanted, s.asked[:len(wanted)])
	assert.Equal(t, []string{"staging " + last, "prod " + last, "staging " + approved, "prod " + approved}, s.asked[len(s.asked)-4:])
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(s.asked))), len(s.asked), "a revision is promoted to a stage twice: %v", s.asked)
}

// With the policy concurrent a newer revision comes to staging while the one before is still to come to prod, which
// gets both, one after the other.
func TestTwoRevisionsAreUnderWayAtOnce(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	f := newFleet(t, c)
	s := newStoryOf(t, c, "concurrent", f.stages...)
	older := f.all[0].repository.commit(map[string]string{"shop.yaml": manifest(shop("v2", pause))})
	f.commits["v2"], s.held = older, "prod "+older
	f.stages[0].bring(older)
	s.is("prod " + older)
	newer := f.push("v3", pause)
	s.is("staging " + newer)
	close(s.release)
	kubetest.Until(t, "prod runs the newer one", func() (string, bool) { return f.stages[2].well(), f.stages[2].well() == newer })
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, []string{"staging " + older, "prod " + older, "staging " + newer, "prod " + newer}, s.asked)
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
		h.declare("", fields{"interval": "2s", "timeout": "30s", "upgrade": fields{"remediation": fields{"retries": 0, "remediateLastFailure": true, "strategy": "rollback"}}})
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

// deployments is a Deployment for each stage. All run v1 at first.
func deployments(t *testing.T, c *client, tags ...string) (all []*workload, stages []stage) {
	t.Helper()
	c.StartControllers(t)
	repository := images(t, c, tags...)
	for _, name := range stageNames {
		w := &workload{newRecorder(t, c, name, "", ""), "deployments", "Deployment", "apps/v1", repository, 2}
		w.follows(w.path(), object.Object{Kind: "Deployment"})
		all = append(all, w)
		stages = append(stages, stage{
			name: name, object: fields{"cluster": "dev", "kind": "Deployment", "namespace": w.namespace, "name": "shop"},
			bring: func(tag string) { w.declare("", tag) },
			well:  w.readyTag,
		})
		w.declare("", tags[0])
		w.is("it runs the first", fields{"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "unavailableReplicas": ""})
	}
	return all, stages
}

// says waits until a stage waits for something.
func (s *story) says(words string) {
	s.Helper()
	kubetest.Until(s, words, func() (string, bool) {
		said := s.deployster("pipeline", "status", "shop")
		return said, strings.Contains(said, words)
	})
}

// What somebody rejects does not come to prod, and what comes after it waits for its own approval. An image that
// a paused Deployment is to run goes nowhere before it runs, whoever looks at it.
func TestWhatIsRejectedOrPausedGoesNowhere(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	all, stages := deployments(t, c, "v1", "v2", "v3", "v4", "v5")
	s := newStory(t, c, stages...)
	s.defined[1].(fields)["soak"] = "3s"
	s.defined[2].(fields)["manual"] = true
	s.defines()

	stages[0].bring("v2")
	s.says("revision v2 waits for approval")
	s.deployster("pipeline", "reject", "shop", "prod", "v2", "--reason", "drops sessions")
	s.says("revision v2 was rejected")
	stages[0].bring("v3")
	s.says("revision v3 waits for approval")
	s.deployster("pipeline", "approve", "shop", "prod", "v3")
	s.comesTo("v3")

	all[0].declare("", "v4", paused)
	all[0].until("it has seen that", seen)
	all[0].rests()
	s.ends(syscall.SIGKILL)
	s.starts(io.Discard)
	all[0].declare("", "v5", paused)
	all[0].until("it has seen that", seen)
	all[0].rests()
	s.says("is suspended")
	s.mu.Lock()
	assert.Equal(t, []string{"staging v2", "staging v3", "prod v3"}, s.asked)
	s.mu.Unlock()
	all[0].declare("", "v5")
	s.says("revision v5 waits for approval")

	// staging goes back and comes again, so the approval from before is void.
	s.deployster("pipeline", "hold", "shop", "prod", "--reason", "later")
	s.deployster("pipeline", "approve", "shop", "prod", "v5")
	stages[1].bring("v1")
	kubetest.Until(t, "staging runs v1", func() (string, bool) { return stages[1].well(), stages[1].well() == "v1" })
	all[1].rests()
	stages[1].bring("v5")
	kubetest.Until(t, "staging runs v5", func() (string, bool) { return stages[1].well(), stages[1].well() == "v5" })
	s.deployster("pipeline", "release-hold", "shop", "prod")
	s.says("revision v5 waits for approval")
	s.deployster("pipeline", "approve", "shop", "prod", "v5")
	s.comesTo("v5")
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, []string{"staging v2", "staging v3", "prod v3", "staging v5", "prod v5"}, s.asked)
}

// Images that come faster than they soak queue before staging, which keeps the one that it runs until that has
// come to prod.
func TestWhatSoaksIsKeptUntilItIsPromoted(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	all, stages := deployments(t, c, "v1", "v2", "v3", "v4")
	s := newStoryOf(t, c, "concurrent", stages...)
	s.defined[1].(fields)["soak"], s.defined[1].(fields)["keep_until"] = "15s", "promoted"
	s.held = "staging v2"
	s.defines()
	stages[0].bring("v2")
	s.is("staging v2")
	for _, tag := range []string{"v3", "v4"} { // while staging has v2 still to come
		stages[0].bring(tag)
		all[0].is("it is rolled out", fields{"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "unavailableReplicas": ""})
	}
	close(s.release)
	s.says("keeps revision v2")
	kubetest.Until(t, "prod runs v4", func() (string, bool) { return stages[2].well(), stages[2].well() == "v4" })
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, []string{"staging v2", "prod v2", "staging v4", "prod v4"}, s.asked)
}

// All stages are in one repository, each in a directory, and Argo CD syncs every commit to all of them. A version
// goes on by a pull request for each stage, which somebody merges. One whose Pods never start is not proposed, and
// one whose pull request is closed goes no further.
func TestVersionsGoThroughPullRequestsOfOneRepository(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	c.StartControllers(t)
	argo := startArgo(t, c)
	files := map[string]string{}
	for _, name := range stageNames {
		files[name+"/shop.yaml"] = manifest(shop("v1", pause)) + "\n"
	}
	f := forgetest.New(t, "gitea", files)
	repository := "file://" + strings.TrimSpace(f.Git("rev-parse", "--absolute-git-dir"))
	var all []*synced
	var stages []stage
	for _, name := range stageNames {
		a := newSynced(t, c, argo, name, "")
		a.declare("", fields{"source": fields{"repoURL": repository, "path": name, "targetRevision": "main"}})
		a.applied(f.Head("main"))
		all = append(all, a)
		stages = append(stages, stage{
			name: name, object: fields{"cluster": "dev", "kind": "Application", "namespace": argo, "name": a.namespace, "part": "path"},
			well: func() string { return rolledOut(a.must(t, http.MethodGet, a.workload(), "", nil)) },
		})
	}
	looks := func() { // as the webhook of a forge has it
		for _, a := range all {
			a.looks()
		}
	}
	s := newStoryWith(t, c, "single", func(stage fields) {
		place := fields{"repository": f.Address(), "file": stage["name"].(string) + "/shop.yaml", "value": "spec.template.metadata.annotations.version", "token_file": "secrets/token"}
		if stage["name"] == "dev" {
			stage["source"] = place
			return
		}
		delete(stage, "webhook")
		place["provider"], place["check_every"] = "gitea", "10s"
		stage["strategy"], stage["pull_request"] = "pull-request", place
	}, stages...)
	pushes := func(version, image string, change ...func(spec fields)) {
		f.Commit("main", map[string]string{"dev/shop.yaml": manifest(shop(version, image, change...)) + "\n"}, "")
		looks()
	}
	proposed := func(number int, stage, version string) {
		t.Helper()
		kubetest.Until(t, version+" is proposed for "+stage, func() (string, bool) { return fmt.Sprint(f.Pulls()), len(f.Pulls()) == number })
		p := f.Pulls()[number-1]
		assert.Equal(t, "deployster/shop/"+stage, p.Branch)
		assert.Contains(t, f.Show(p.Branch, stage+"/shop.yaml"), `"version":"`+version+`"`)
		assert.Equal(t, stage+"/shop.yaml", f.Changed("main", p.Branch))
		before := slices.Index(stageNames, stage) - 1
		assert.Equal(t, version, stages[before].well(), "what is proposed for %s runs well in %s", stage, stageNames[before])
	}
	merges := func(number int) {
		f.Merge(number)
		looks()
	}
	pushes("v2", pause)
	proposed(1, "staging", "v2")
	assert.Equal(t, "v1", stages[1].well(), "a commit of dev is nothing to staging")
	merges(1)
	proposed(2, "prod", "v2")
	merges(2)
	s.comesTo("v2")

	pushes("v3", missing, soon)
	all[0].says("Succeeded", "Synced", "Degraded", f.Head("main"))
	all[0].rests()
	pushes("v4", pause)
	proposed(3, "staging", "v4")
	merges(3)
	proposed(4, "prod", "v4")
	f.Decline(4)
	s.says("closed")
	pushes("v5", pause)
	proposed(5, "staging", "v5")
	merges(5)
	proposed(6, "prod", "v5")
	merges(6)
	s.comesTo("v5")
	var states []string
	for _, p := range f.Pulls() {
		states = append(states, p.State)
	}
	assert.Equal(t, []string{"merged", "merged", "merged", "closed", "merged", "merged"}, states)
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

// What real controllers write of their objects is read as it truly is.
func TestStatusesOfRealControllers(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	c.StartControllers(t)
	repository := images(t, c, "v1", "v2", "v3")
	t.Run("Kubernetes", func(t *testing.T) { workloads(t, c, repository) })
	t.Run("Batches", func(t *testing.T) { batches(t, c, repository) })
	t.Run("Rollouts", func(t *testing.T) { rollouts(t, c, repository) })
	t.Run("Kustomizations", func(t *testing.T) { kustomizations(t, c) })
	t.Run("Applications", func(t *testing.T) { applications(t, c) })
	t.Run("HelmReleases", func(t *testing.T) { helmReleases(t, c) })
}
