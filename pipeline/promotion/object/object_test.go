package object_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// live is an object as a cluster has it.
func live(t *testing.T, text string) (o map[string]any) {
	t.Helper()
	if text == "" {
		return nil
	}
	require.NoError(t, json.Unmarshal([]byte(text), &o), "%s", text)
	return o
}

// text is how a reading is written in the tables: "42", "42 unwell: why", "42 at work: why", "42 changing: why", "42 suspended", "none: why" or "unknown: why".
func text(r object.Reading) string {
	switch {
	case r.Unknown:
		return "unknown: " + r.Why
	case r.Revision == "":
		return "none: " + r.Why
	case r.Working:
		return r.Revision + " at work: " + r.Why
	case r.Changing:
		return r.Revision + " changing: " + r.Why
	case !r.Healthy:
		return r.Revision + " unwell: " + r.Why
	case r.Suspended:
		return r.Revision + " suspended"
	}
	return r.Revision
}

type reading struct{ name, live, want string }

func read(t *testing.T, o object.Object, all []reading) {
	t.Helper()
	for _, tc := range all {
		if got := text(o.Read(live(t, tc.live))); !strings.HasPrefix(got, tc.want) || tc.want == "" || got != tc.want && !strings.Contains(tc.want, ": ") {
			t.Errorf("%s: it is read as %q, want %q", tc.name, got, tc.want)
		}
	}
}

// flux is an object of Flux, of generation 3.
func flux(status string) string {
	return `{"metadata": {"generation": 3}, "spec": {}, "status": ` + status + `}`
}

func TestAnObjectOfFluxRunsWhatItsControllerSays(t *testing.T) {
	ready := func(status string, generation int) string {
		return fmt.Sprintf(`"conditions": [{"type": "Healthy", "status": "False"}, {"type": "Ready", "status": %q, "observedGeneration": %d, "reason": "Built", "message": "all\nis  \u001b[31mso"}]`, status, generation)
	}
	working := func(generation int) string {
		return fmt.Sprintf(`"conditions": [{"type": "Ready", "status": "Unknown", "observedGeneration": %d, "reason": "Progressing", "message": "Reconciliation in progress"}]`, generation)
	}
	read(t, object.Object{Kind: "Kustomization"}, []reading{
		{"it is ready", flux(`{"observedGeneration": 3, "lastAppliedRevision": "main@sha1:4a", ` + ready("True", 3) + `}`), "main@sha1:4a"},
		{"its conditions are new, and the rest is not written yet", flux(`{"observedGeneration": 3, "lastAttemptedRevision": "main@sha1:5b", "lastAppliedRevision": "main@sha1:4a", ` + ready("True", 3) + `}`), "main@sha1:4a unwell: it attempted main@sha1:5b last, and runs main@sha1:4a"},
		{"it was changed, and failed", flux(`{"observedGeneration": 2, "lastAppliedRevision": "main@sha1:4a", ` + ready("False", 3) + `}`), "main@sha1:4a unwell: its condition Ready is False: Built: all is [31mso"},
		{"it was changed, and only its condition is written", flux(`{"observedGeneration": 2, "lastAppliedRevision": "main@sha1:4a", ` + ready("True", 3) + `}`), "main@sha1:4a changing: its controller has not looked at it since"},
		{"it was never looked at", flux(`{"observedGeneration": -1}`), "none: its controller has not looked at it yet"},
		{"it has no status", `{"metadata": {"generation": 3}}`, "none: it has no condition Ready yet"},
		{"it does not exist", ``, "none: it does not exist"},
		{"another revision failed", flux(`{"observedGeneration": 3, "lastAppliedRevision": "main@sha1:4a", ` + ready("False", 3) + `}`), "main@sha1:4a unwell: its condition Ready is False: Built: all is [31mso"},
		{"it is at work", flux(`{"observedGeneration": 3, "lastAppliedRevision": "main@sha1:4a", ` + ready("Unknown", 3) + `}`), "main@sha1:4a unwell: its condition Ready is Unknown: Built"},
		{"it is at work, as at each interval", flux(`{"observedGeneration": 3, "lastAppliedRevision": "main@sha1:4a", ` + working(3) + `}`), "main@sha1:4a at work: its condition Ready is Unknown: Progressing"},
		{"it is at work on another revision", flux(`{"observedGeneration": 3, "lastAttemptedRevision": "main@sha1:5b", "lastAppliedRevision": "main@sha1:4a", ` + working(3) + `}`), "main@sha1:4a changing: its condition Ready is Unknown: Progressing"},
		{"it is at work since it was changed", flux(`{"observedGeneration": 2, "lastAppliedRevision": "main@sha1:4a", ` + working(3) + `}`), "main@sha1:4a changing: its condition Ready is Unknown: Progressing: Reconciliation in progress"},
		{"it is at work on what it was before", flux(`{"observedGeneration": 3, "lastAppliedRevision": "main@sha1:4a", ` + working(2) + `}`), "main@sha1:4a changing: its condition Ready is of generation 2"},
		{"it is at work, and nobody knows of what", flux(`{"lastAppliedRevision": "main@sha1:4a", ` + working(3) + `}`), "main@sha1:4a unwell: its condition Ready is Unknown"},
		{"it is at work on its end", `{"metadata": {"deletionTimestamp": "2026-11-27T00:00:00Z"}, "status": {"observedGeneration": 3, "lastAppliedRevision": "4", ` + working(3) + `}}`, "4 unwell: it is being removed"},
		{"it was changed since", flux(`{"observedGeneration": 2, "lastAppliedRevision": "main@sha1:4a", ` + ready("True", 2) + `}`), "main@sha1:4a changing: its controller has not looked at it"},
		{"its condition is older", flux(`{"observedGeneration": 3, "lastAppliedRevision": "main@sha1:4a", ` + ready("True", 2) + `}`), "main@sha1:4a changing: its condition Ready is of generation 2, and it was changed since: 3"},
		{"nothing was applied yet", flux(`{"observedGeneration": 3, ` + ready("True", 3) + `}`), "none: it has applied no revision yet: there is nothing at {.status.lastAppliedRevision}"},
		{"its revision is empty", flux(`{"observedGeneration": 3, "lastAppliedRevision": "", ` + ready("True", 3) + `}`), "none: it has applied no revision yet"},
		{"it is being removed", `{"metadata": {"generation": 3, "deletionTimestamp": "2026-11-27T00:00:00Z"}, "status": {"lastAppliedRevision": "4", ` + ready("True", 3) + `}}`, "4 unwell: it is being removed"},
		{"its revision is a list", flux(`{"lastAppliedRevision": ["4"], ` + ready("True", 3) + `}`), "unknown: what is at {.status.lastAppliedRevision} is no text or number that can be a revision"},
		{"its revision drives a terminal", flux(`{"lastAppliedRevision": "4\u001b[2J", ` + ready("True", 3) + `}`), "unknown: what is at"},
		{"its revision is too long", flux(`{"lastAppliedRevision": "` + strings.Repeat("4", 201) + `", ` + ready("True", 3) + `}`), "unknown: what is at"},
		{"all of it is strange", `{"metadata": 7, "status": [true]}`, "none: it has no condition Ready yet"},
		{"its conditions are strange", flux(`{"lastAppliedRevision": "4", "conditions": ["Ready", null, {"type": 7}]}`), "4 unwell: it has no condition Ready yet"},
	})
}

// Who suspends an object changes it, and its controller does not look at it any more: it runs what it ran.
func TestASuspendedObjectRunsWhatItRan(t *testing.T) {
	of := func(status string) string {
		return `{"metadata": {"generation": 4}, "spec": {"suspend": true}, "status": {"observedGeneration": 3, ` + status + `}}`
	}
	ready := func(status string) string {
		return `"conditions": [{"type": "Ready", "status": "` + status + `", "observedGeneration": 3, "reason": "Built"}]`
	}
	rows := []reading{
		{"it was well", of(`"lastAppliedRevision": "1", "lastAttemptedRevision": "1", ` + ready("True")), "1 suspended"},
		{"it had failed", of(`"lastAppliedRevision": "1", "lastAttemptedRevision": "2", ` + ready("False")), "1 unwell: it is suspended: its condition Ready is False: Built"},
		{"it was at work", of(`"lastAppliedRevision": "1", "lastAttemptedRevision": "2", ` + ready("True")), "1 unwell: it is suspended: it attempted 2 last, and runs 1"},
		{"it never ran", of(ready("True")), "none: it has applied no revision yet"},
		{"it goes on", strings.Replace(of(`"lastAppliedRevision": "1", "lastAttemptedRevision": "1", `+ready("True")), "true", "false", 1), "1 changing: its controller has not looked at it since"},
	}
	read(t, object.Object{Kind: "Kustomization"}, rows)
	read(t, object.Object{Kind: "HelmRelease"}, rows)
	read(t, object.Object{Kind: "Task", APIVersion: "acme.example/v1"}, []reading{{"it means something else", of(`"lastAppliedRevision": "1", ` + ready("True")), "1 changing: its controller"}})
	read(t, object.Object{Kind: "Kustomization", Ready: "{.status.phase}=Done"}, []reading{{"it says so elsewhere", of(`"lastAppliedRevision": "1", "phase": "Busy", ` + ready("True")), "1 unwell: it is suspended: {.status.phase} is Busy, not Done"}})
}

func TestAReleaseOfHelmRunsTheChartThatWasReleasedLast(t *testing.T) {
	const ready = `"conditions": [{"type": "Ready", "status": "True"}]`
	const registry = `{"history": [{"chartVersion": "1.0.0+78f492005649", "ociDigest": "sha256:78f492005649", "status": "deployed"}], ` + ready + `}`
	read(t, object.Object{Kind: "HelmRelease", Part: object.Digest}, []reading{{"a version has no digest", flux(registry), "unknown: "}})
	read(t, object.Object{Kind: "HelmRelease"}, []reading{
		{"of an OCI repository", flux(registry), "1.0.0"},
		{"with metadata of its own", flux(`{"history": [{"chartVersion": "1.0.0+build5", "status": "deployed"}], ` + ready + `}`), "1.0.0+build5"},
		{"it went back to the version before", flux(`{"lastAttemptedRevision": "1.3.0", "history": [{"chartVersion": "1.3.0", "status": "failed"}, {"chartVersion": "1.2.0", "status": "deployed"}], ` + ready + `}`), "1.2.0 unwell: it attempted 1.3.0 last, and runs 1.2.0"},
		{"of an older API", flux(`{"lastAppliedRevision": "1.2.0", ` + ready + `}`), "1.2.0"},
		{"by its history", flux(`{"history": [{"chartVersion": "1.3.0", "status": "deployed"}, {"chartVersion": "1.2.0", "status": "superseded"}], ` + ready + `}`), "1.3.0"},
		{"the newest failed", flux(`{"history": [{"chartVersion": "1.3.0", "status": "failed"}, {"chartVersion": "1.2.0", "status": "deployed"}], "conditions": []}`), "1.2.0 unwell: it has no condition Ready yet"},
		{"nothing was ever released", flux(`{"history": [{"chartVersion": "1.3.0", "status": "failed"}], ` + ready + `}`), "none: it has applied no revision yet: there is nothing at {.status.history[0].chartVersion}"},
		{"its history is strange", flux(`{"history": [7, {"status": "deployed"}], ` + ready + `}`), "none: "},
	})
}

func TestAnApplicationOfArgoRunsWhatItIsSyncedTo(t *testing.T) {
	of := func(sync, health, compared string) string {
		return `{"spec": {"source": {"repoURL": "r", "targetRevision": "v2"}}, "status": {"sync": {"status": "` + sync + `", "revision": "4a", "comparedTo": {"source": {"repoURL": "r", "targetRevision": "` + compared + `"}}}, "health": {"status": "` + health + `"}}}`
	}
	read(t, object.Object{Kind: "Application"}, []reading{
		{"all is well", of("Synced", "Healthy", "v2"), "4a"},
		{"it is not synced", of("OutOfSync", "Healthy", "v2"), "none: its sync status is OutOfSync"},
		{"it is not healthy", of("Synced", "Degraded", "v2"), "4a unwell: its health is Degraded"},
		{"it was changed since", of("Synced", "Healthy", "v1"), "4a unwell: its controller has not looked at it since its targetRevision was changed from v1 to v2"},
		{"it has no status", `{"spec": {}}`, "none: its sync status is not known yet"},
	})
	app := func(status, more string) string {
		return `{"spec": {"syncPolicy": {"automated": {}}}` + more + `, "status": {"health": {"status": "Healthy"}, "history": [{"revision": "2a"}, {"revision": "3a"}], ` + status + `}}`
	}
	const synced = `"sync": {"status": "Synced", "revision": "4a"}`
	operation := func(phase, revision string) string {
		return `, "operationState": {"phase": "` + phase + `", "message": "no", "syncResult": {"revision": "` + revision + `"}}`
	}
	read(t, object.Object{Kind: "Application"}, []reading{
		{"it was compared with another one", app(`"sync": {"status": "OutOfSync", "revision": "4a"}`, ""), "3a unwell: its sync status is OutOfSync"},
		{"it cannot be compared", app(`"sync": {"status": "Unknown", "revision": "4a"}`, ""), "3a unwell: its sync status is Unknown"},
		{"it is as another one without a sync", app(synced, ""), "4a"},
		{"a sync was asked for", app(synced, `, "operation": {"sync": {}}`), "4a unwell: a sync of it was asked for, and has not begun"},
		{"a sync runs", app(synced+operation("Running", "4a"), ""), "4a unwell: its sync is Running: no"},
		{"a sync is being ended", app(synced+operation("Terminating", "4a"), ""), "4a unwell: its sync is Terminating"},
		{"its sync failed", app(synced+operation("Failed", "4a"), ""), "4a unwell: its sync is Failed: no"},
		{"its sync was not possible", app(synced+operation("Error", "4a"), ""), "4a unwell: its sync is Error: no"},
		{"a sync failed, and a commit elsewhere moved the compared revision on", app(synced+operation("Failed", "3a"), ""), "4a unwell: its sync is Failed: no"},
		{"a sync is retried", app(synced+operation("Running", "4a"), `, "operation": {"sync": {}, "retry": {"limit": 5}}`), "4a unwell: its sync is Running: no"},
		{"a sync was asked for after one failed", app(synced+operation("Failed", "4a"), `, "operation": {"sync": {}}`), "4a unwell: a sync of it was asked for, and has not begun"},
		{"its sync is done", app(synced+operation("Succeeded", "4a"), ""), "4a"},
		{"it has several sources", app(`"sync": {"status": "Synced", "revisions": ["4a", "5a"]}`, ""), "unknown: it has several sources, with a revision each: name the one that counts with revision"},
		{"its history is strange", `{"status": {"history": [7], "sync": {"status": "OutOfSync", "revision": "4a"}}}`, "none: its sync status is OutOfSync"},
	})
	byHand := func(status string) string {
		return strings.Replace(app(status, ""), `"automated": {}`, `"automated": {"enabled": false}`, 1)
	}
	const other = `"sync": {"status": "OutOfSync", "revision": "4a"}`
	read(t, object.Object{Kind: "Application"}, []reading{
		{"people sync it, and have not", byHand(other), "3a suspended"},
		{"it has no policy", strings.Replace(app(other, ""), `"automated": {}`, ``, 1), "3a suspended"},
		{"people sync it, and it is as they synced it", byHand(synced), "4a"},
		{"people changed what it runs", byHand(`"sync": {"status": "OutOfSync", "revision": "3a"}`), "3a unwell: its sync status is OutOfSync"},
		{"people sync it, and it failed", byHand(other + operation("Failed", "4a")), "3a unwell: its syncs are not automated (spec.syncPolicy.automated): its sync is Failed: no"},
		{"people sync it, and do so now", byHand(other + operation("Running", "4a")), "3a unwell: its syncs are not automated (spec.syncPolicy.automated): its sync is Running: no"},
		{"people sync it, and it is ill", strings.Replace(byHand(other), "Healthy", "Degraded", 1), "3a unwell: its syncs are not automated (spec.syncPolicy.automated): its health is Degraded"},
	})
	read(t, object.Object{Kind: "Application", Revision: "{.status.sync.revision}"}, []reading{
		{"what it is compared with is not what it runs", byHand(other), "4a unwell: its syncs are not automated (spec.syncPolicy.automated): its sync status is OutOfSync"},
	})
	// What people synced to another revision than the one that is compared is as healthy as the one before
	// until it is compared again. Times are in whole seconds, so of two in one second either may be the later.
	at := func(reconciled, finished, deployed string) string {
		status := other + `, "reconciledAt": "2026-11-30T10:00:` + reconciled + `Z"`
		if finished != "" {
			status += `, "operationState": {"phase": "Succeeded", "finishedAt": "2026-11-30T10:00:` + finished + `Z"}`
		}
		return strings.Replace(byHand(status), `{"revision": "3a"}`, `{"revision": "3a", "deployedAt": "2026-11-30T10:00:`+deployed+`Z"}`, 1)
	}
	const old = "3a unwell: its syncs are not automated (spec.syncPolicy.automated): its controller has not compared it since its last sync ended; to have it compared now: argocd app get NAME --refresh"
	read(t, object.Object{Kind: "Application"}, []reading{
		{"it was compared since", at("07", "05", "04"), "3a suspended"},
		{"a sync has ended since it was compared", at("04", "05", "05"), old},
		{"both in one second", at("05", "05", "04"), old},
		{"the sync is in the history, and has not ended", at("04", "03", "05"), old},
		{"nothing is known of the sync but that", at("04", "", "05"), old},
		{"it was never compared", strings.Replace(at("04", "05", "05"), "reconciledAt", "other", 1), old},
		{"when it was compared is no time", strings.Replace(at("04", "05", "05"), `"2026-11-30T10:00:04Z"`, `"today"`, 1), old},
		{"it is as people synced it", strings.Replace(at("04", "05", "05"), `"OutOfSync", "revision": "4a"`, `"Synced", "revision": "3a"`, 1), "3a"},
		{"it is still said to be as it was before the sync", strings.Replace(at("04", "05", "05"), `"OutOfSync"`, `"Synced"`, 1), "4a unwell: its controller has not compared it since its last sync ended"},
		{"it is as another one without a sync", strings.Replace(at("07", "05", "05"), `"OutOfSync"`, `"Synced"`, 1), "4a"},
	})
	several := `{"spec": {"sources": [{}, {}]}, "status": {"health": {"status": "Healthy"}, "history": [{"revisions": ["3a", "5a"]}], "sync": {"status": "OutOfSync", "revisions": ["4a", "5a"]}}}`
	read(t, object.Object{Kind: "Application", Revision: "{.status.history[-1:].revisions[0]}"}, []reading{
		{"people sync one of several sources", several, "3a suspended"},
		{"they changed what it runs", strings.Replace(several, "4a", "3a", 1), "3a unwell: its sync status is OutOfSync"},
	})
	read(t, object.Object{Kind: "Application", Revision: "{$.status.history[-1:].revisions[0]}"}, []reading{{"another form of the path", several, "3a suspended"}})
	read(t, object.Object{Kind: "Application", Revision: "{.status.sync.revisions[0]}"}, []reading{
		{"what several sources are compared with", several, "4a unwell: its syncs are not automated (spec.syncPolicy.automated): its sync status is OutOfSync"},
	})
	read(t, object.Object{Kind: "Application", Revision: "{.status.sync.revisions[1]}"}, []reading{
		{"one of several sources counts", app(`"sync": {"status": "Synced", "revisions": ["4a", "5a"]}`, ""), "5a"},
		{"a sync of all of them failed", app(`"sync": {"status": "Synced", "revisions": ["4a", "5a"]}, "operationState": {"phase": "Failed", "syncResult": {"revision": "", "revisions": ["4a", "5a"]}}`, ""), "5a unwell: its sync is Failed"},
	})
}

func TestAWorkloadRunsAnImageWhenItIsRolledOut(t *testing.T) {
	of := func(image, replicas, status string) string {
		return `{"metadata": {"generation": 2}, "spec": {"replicas": ` + replicas + `, "template": {"spec": {"containers": [{"image": "` + image + `"}, {"image": "sidecar:7"}]}}}, "status": ` + status + `}`
	}
	const done = `{"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}`
	read(t, object.Object{Kind: "Deployment"}, []reading{
		{"all is rolled out", of("registry.example:5000/shop:42", "2", done), "42"},
		{"its image has no tag", of("shop@sha256:4a", "2", done), "sha256:4a"},
		{"its image has both", of("shop:42@sha256:4a", "2", done), "42"},
		{"its image has neither", of("registry.example:5000/shop", "2", done), `unknown: "registry.example:5000/shop" at {.spec.template.spec.containers[0].image} has no tag`},
		{"it was changed since", of("shop:42", "2", `{"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}`), "42 changing: its controller has not looked at it since"},
		{"it was never looked at", of("shop:42", "2", `{}`), "42 unwell: its controller has not looked at it yet"},
		{"not all are new", of("shop:42", "2", `{"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 2}`), "42 unwell: 1 of 2 Pods are of its newest template"},
		{"one of before is there", of("shop:42", "2", `{"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 3}`), "42 unwell: Pods of before are still there: 1"},
		{"one is not available", of("shop:42", "2", `{"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}`), "42 unwell: 1 of 2 Pods are available"},
		{"nothing of it is wanted", of("shop:42", "0", `{"observedGeneration": 2}`), "42 unwell: it wants no Pod"},
		{"it is paused, and nothing is to change", strings.Replace(of("shop:42", "2", done), `"replicas"`, `"paused": true, "replicas"`, 1), "42 suspended"},
		{"it is paused, and is to change", strings.Replace(of("shop:43", "2", `{"observedGeneration": 2, "replicas": 2, "availableReplicas": 2}`), `"replicas"`, `"paused": true, "replicas"`, 1), "43 unwell: it is paused: 0 of 2 Pods are of its newest template"},
		{"it has no container", `{"spec": {"template": {"spec": {"containers": []}}}}`, "unknown: {.spec.template.spec.containers[0].image} cannot be evaluated"},
	})
	read(t, object.Object{Kind: "StatefulSet"}, []reading{
		{"all is rolled out", of("shop:42", "2", `{"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "currentRevision": "a", "updateRevision": "a"}`), "42"},
		{"people replaced all Pods", strings.Replace(of("shop:42", "2", `{"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "currentRevision": "a", "updateRevision": "b"}`), `"replicas": 2,`, `"replicas": 2, "updateStrategy": {"type": "OnDelete"},`, 1), "42"},
		{"people replaced one Pod", strings.Replace(of("shop:42", "2", `{"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 2, "currentRevision": "a", "updateRevision": "b"}`), `"replicas": 2,`, `"replicas": 2, "updateStrategy": {"type": "OnDelete"},`, 1), "42 unwell: not all of its Pods are of its newest template: a gives way to b"},
		{"some are of before", of("shop:42", "2", `{"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "currentRevision": "a", "updateRevision": "b"}`), "42 unwell: not all of its Pods are of its newest template: a gives way to b"},
	})
	read(t, object.Object{Kind: "DaemonSet"}, []reading{
		{"all is rolled out", of("shop:42", "7", `{"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3}`), "42"},
		{"a node waits", of("shop:42", "7", `{"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 2}`), "42 unwell: 2 of 3 Pods are available"},
	})
	// What another group calls a Deployment says nothing by itself.
	read(t, object.Object{Kind: "Deployment", APIVersion: "other.example/v1"}, []reading{{"of another group", of("shop:42", "2", done), "none: it has no condition Ready yet"}})
}

func TestADefinitionSaysWhereAnObjectSaysWhatItRuns(t *testing.T) {
	o := object.Object{Kind: "Terraform", APIVersion: "infra.example/v1", Revision: "{.status.runs}", Ready: "{.status.phase}=Done"}
	read(t, o, []reading{
		{"it is done", `{"status": {"runs": "42", "phase": "Done"}}`, "42"},
		{"it is a number", `{"status": {"runs": 42, "phase": "Done"}}`, "42"},
		{"it is a large number", `{"status": {"runs": 123456789012, "phase": "Done"}}`, "123456789012"},
		{"it goes on", `{"status": {"runs": "42", "phase": "Planning"}}`, "42 unwell: {.status.phase} is Planning, not Done"},
		{"it says nothing", `{"status": {"runs": "42"}}`, "42 unwell: it does not say whether it is ready: there is nothing at {.status.phase}"},
		{"it has seen less", `{"metadata": {"generation": 2}, "status": {"observedGeneration": 1, "runs": "42", "phase": "Done"}}`, "42 unwell: its controller"},
		{"its revision is an object", `{"status": {"runs": {"a": 1}, "phase": "Done"}}`, "unknown: what is at {.status.runs}"},
		{"its revision is nothing", `{"status": {"runs": null, "phase": "Done"}}`, "none: it has applied no revision yet: there is nothing at {.status.runs}"},
	})
	o.Revision, o.Ready = ".status.units[*].revision", `{.status.conditions[?(@.type=="Done")].status}`
	read(t, o, []reading{
		{"one unit, and true", `{"status": {"units": [{"revision": "42"}], "conditions": [{"type": "Done", "status": "True"}, {"type": "x", "status": "False"}]}}`, "42"},
		{"two units", `{"status": {"units": [{"revision": "42"}, {"revision": "43"}], "conditions": []}}`, "unknown: .status.units[*].revision leads to 2 values, and must lead to one"},
		{"not true", `{"status": {"units": [{"revision": "42"}], "conditions": [{"type": "Done", "status": "False"}]}}`, `42 unwell: {.status.conditions[?(@.type=="Done")].status} is False, not True`},
		{"twice done", `{"status": {"units": [{"revision": "42"}], "conditions": [{"type": "Done", "status": "True"}, {"type": "Done", "status": "True"}]}}`, "unknown: "},
		{"its conditions are a number", `{"status": {"units": [{"revision": "42"}], "conditions": 7}}`, "unknown: "},
	})
}

func TestWhatOthersSuspendIsDeclaredOnly(t *testing.T) {
	for _, c := range []struct {
		object   object.Object
		live     string
		want     string
		declared bool
	}{
		{object.Object{Kind: "CronJob", APIVersion: "batch/v1", Revision: "{.spec.tag}", Ready: "{.spec.suspend}=true"}, `{"spec": {"tag": "2", "suspend": true}}`, "2 suspended", true},
		{object.Object{Kind: "CronJob", APIVersion: "batch/v1", Revision: "{.spec.tag}", Ready: "{.spec.suspend}=false"}, `{"spec": {"tag": "2", "suspend": false}}`, "2", false},
		{object.Object{Kind: "Rollout", APIVersion: "argoproj.io/v1alpha1", Revision: "{.spec.tag}", Ready: "{.status.phase}=Healthy"}, `{"spec": {"tag": "2", "paused": true}, "status": {"phase": "Paused"}}`, "2 unwell: it is paused: {.status.phase} is Paused, not Healthy", true},
		{object.Object{Kind: "Rollout", APIVersion: "argoproj.io/v1alpha1", Revision: "{.status.tag}", Ready: "{.status.phase}=Healthy"}, `{"spec": {"paused": true}, "status": {"tag": "1", "phase": "Healthy"}}`, "1 suspended", false},
		{object.Object{Kind: "Deployment"}, `{"spec": {"paused": true, "template": {"spec": {"containers": [{"image": "shop:2"}]}}}, "status": {"replicas": 1, "availableReplicas": 1}}`, "2 unwell: it is paused: ", true},
		{object.Object{Kind: "Kustomization"}, `{"spec": {"suspend": true}, "status": {"lastAppliedRevision": "1", "conditions": [{"type": "Ready", "status": "True"}]}}`, "1 suspended", false},
	} {
		read(t, c.object, []reading{{c.object.Kind, c.live, c.want}})
		assert.Equal(t, c.declared, c.object.Read(live(t, c.live)).Declared, "%s: %s", c.object.Kind, c.live)
	}
}

// All but what a controller writes into the status is what people declare, in whatever form the path is written.
func TestOnlyTheStatusTellsWhatASuspendedObjectRuns(t *testing.T) {
	const job = `{
		"metadata": {"labels": {"version": "2"}},
		"spec": {"suspend": true, "jobTemplate": {"image": "2"}, "status": "2"},
		"status": {"image": "2", "spec": "2", "runs": [{"image": "2"}], "phase": "Done"}
	}`
	for _, prefix := range []string{"{.", "{$.", "{@.", "{ .", "{ $ .", "."} {
		end := strings.Repeat("}", strings.Count(prefix, "{"))
		for path, declared := range map[string]bool{
			"spec.jobTemplate.image": true, "spec['jobTemplate'].image": true, "spec.status": true, "metadata.labels.version": true, "*.jobTemplate.image": true,
			"status.image": false, "status['image']": false, "status.spec": false, "status.runs[0].image": false, "status.runs[-1:].image": false, `status.runs[?(@.image=="2")].image`: false,
		} {
			path = prefix + path + end
			r := (&object.Object{Kind: "CronJob", APIVersion: "batch/v1", Revision: path, Ready: "{.status.phase}=Done"}).Read(live(t, job))
			assert.True(t, r.Suspended && r.Healthy && r.Revision == "2" && r.Declared == declared, "%s: %+v", path, r)
		}
	}
	for path, declared := range map[string]bool{"{['spec'].jobTemplate.image}": true, "{$['spec']['jobTemplate']['image']}": true, "{['status'].image}": false, "{$['status']['runs'][0]['image']}": false} {
		r := (&object.Object{Kind: "CronJob", APIVersion: "batch/v1", Revision: path, Ready: "{.status.phase}=Done"}).Read(live(t, job))
		assert.True(t, r.Suspended && r.Healthy && r.Revision == "2" && r.Declared == declared, "%s: %+v", path, r)
	}
}

// A workload that is paused keeps the Pods that it has. Whether these are all available counts then.
func TestPodsOfAPausedWorkloadAreCounted(t *testing.T) {
	web := object.Object{Kind: "Deployment"}
	of := func(spec, status string) map[string]any {
		return live(t, `{"metadata": {"generation": 2}, "spec": {"paused": true, `+spec+`"template": {"spec": {"containers": [{"image": "shop:2"}]}}}, "status": {"observedGeneration": 2, `+status+`}}`)
	}
	for _, c := range []struct {
		name         string
		spec, status string
		want         string
	}{
		{"all are there", `"replicas": 2, `, `"replicas": 2, "availableReplicas": 2`, ""},
		{"one more than wanted", `"replicas": 2, `, `"replicas": 3, "availableReplicas": 3`, ""},
		{"one has crashed", `"replicas": 2, `, `"replicas": 2, "availableReplicas": 1, "unavailableReplicas": 1`, "1 of 2 Pods are available"},
		{"none is wanted", `"replicas": 0, `, `"replicas": 0`, "it wants no Pod, so nothing of it runs"},
		{"it was paused half-way", `"replicas": 4, `, `"replicas": 4, "updatedReplicas": 2, "availableReplicas": 4`, "2 of 4 Pods are of its newest template"},
		{"it was paused near the end", `"replicas": 4, `, `"replicas": 5, "updatedReplicas": 4, "availableReplicas": 5`, "Pods of before are still there: 1"},
		{"all were replaced, and one has crashed", `"replicas": 4, `, `"replicas": 4, "updatedReplicas": 4, "availableReplicas": 3`, "3 of 4 Pods are available"},
		{"it was changed when all were replaced", `"replicas": 4, `, `"observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "availableReplicas": 4`, ""},
		{"it was changed half-way", `"replicas": 4, `, `"observedGeneration": 1, "replicas": 4, "updatedReplicas": 2, "availableReplicas": 4`, "2 of 4 Pods are of its newest template"},
	} {
		if r := web.Read(of(c.spec, c.status)); assert.NotNil(t, r.Fewer, c.name) {
			assert.Equal(t, c.want, *r.Fewer, c.name)
		}
	}
	assert.Nil(t, web.Read(of("", `"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1`)).Fewer, "it runs what is declared")
	rollout := object.Object{Kind: "Rollout", APIVersion: "argoproj.io/v1alpha1", Revision: "{.spec.template.spec.containers[0].image}", Ready: "{.status.phase}=Healthy"}
	assert.Nil(t, rollout.Read(of("", `"phase": "Paused"`)).Fewer, "its Pods are counted in another way")
}

func TestAGenerationThatCannotBeReadIsNotWell(t *testing.T) {
	rollout := object.Object{Kind: "Rollout", APIVersion: "argoproj.io/v1alpha1", Revision: "{.status.runs}", Ready: "{.status.phase}=Healthy"}
	of := func(seen string) string {
		return `{"metadata": {"generation": 3}, "status": {"observedGeneration": ` + seen + `, "runs": "42", "phase": "Healthy"}}`
	}
	read(t, rollout, []reading{
		{"a text, as Argo Rollouts write it", of(`"3"`), "42"},
		{"a text of an older generation", of(`"2"`), "42 unwell: its controller has not looked at it since it was changed: it has seen generation 2 of 3"},
		{"a hash", of(`"5f7c9d"`), "42 unwell: its status.observedGeneration is no number: 5f7c9d"},
		{"a fraction", of(`3.5`), "42 unwell: its status.observedGeneration is no number: 3.5"},
		{"an object", of(`{"a": 3}`), "42 unwell: its status.observedGeneration is no number"},
		{"nothing", of(`null`), "42"},
	})
}

func TestARevisionIsAPartOfWhatAnObjectSays(t *testing.T) {
	for _, tc := range []struct {
		part       object.Part
		says, want string
	}{
		{object.Name, "v1.2@sha1:4a5b", "v1.2"}, {object.Name, "1.2.0", "1.2.0"}, {object.Digest, "latest@sha256:4a5b", "sha256:4a5b"},
		{object.Commit, "main@sha1:4a5b", "4a5b"}, {object.Commit, "4a5b", "4a5b"}, {object.Tag, "acme/shop:42", "42"},
		{object.Name, "user@feature@sha1:4a5b", "user@feature"}, {object.Digest, "sha256:4a5b", "sha256:4a5b"}, {object.Commit, "sha1:4a5b", "4a5b"}, {object.Name, "sha1:4a5b", "unknown: "},
		{object.Version, "1.0.0+78f492005649", "1.0.0"}, {object.Version, "1.0.0", "1.0.0"},
		{object.Digest, "1.2.0", `unknown: "1.2.0" at {.status.lastAppliedRevision} has no digest`}, {object.Commit, "main", `unknown: "main" at`}, {object.Name, "@sha1:4a", "unknown: "},
	} {
		o := object.Object{Kind: "Kustomization", Part: tc.part, Ready: ".ok"}
		read(t, o, []reading{{string(tc.part), `{"ok": true, "status": {"lastAppliedRevision": "` + tc.says + `"}}`, tc.want}})
	}
}

func TestAPathLeadsToOneValue(t *testing.T) {
	for path, want := range map[string]string{
		".status.x": "", "{.status.x}": "", `{.status.conditions[?(@.type=="Ready")].status}`: "", `{.metadata.annotations.deployster\.dev/revision}`: "",
		"{..x}": "without ..", "{.a[0,0][0,0]}": "by commas", "{.a['b','c']}": "by commas", "{.a[?(@.b[0,1])]}": "by commas", "{.a['b']}": "", "{.a[?(@..b)]}": "without ..", "{range .a[*]}{.b}{end}": "one JSONPath", "x{.a}": "no JSONPath", "{.a}{.b}": "one JSONPath", "{.a": "no JSONPath", "": "", "{.a}=b": "one JSONPath",
	} {
		if err := object.CheckPath(path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
	for path, fits := range map[string]bool{"{.a}=b": true, "{.a}=": true, "{.a}": true, ".a": true, "{.a}b": false, "{..a}=b": false} {
		assert.Equal(t, fits, object.CheckReady(path) == nil, "%s", path)
	}
}

func TestAnObjectHasAName(t *testing.T) {
	for want, o := range map[string]object.Object{
		"prod/flux-system/Kustomization/shop": {Cluster: "prod", Kind: "Kustomization", Namespace: "flux-system", Name: "shop"},
		"prod/a/HelmRelease/shop":             {Cluster: "prod", Kind: "HelmRelease", APIVersion: "helm.toolkit.fluxcd.io/v2", Namespace: "a", Name: "shop"},
		"prod/Site.acme.example/shop":         {Cluster: "prod", Kind: "Site", APIVersion: "acme.example/v1", Name: "shop"},
		"prod/a/Deployment.acme.example/shop": {Cluster: "prod", Kind: "Deployment", APIVersion: "acme.example/v1", Namespace: "a", Name: "shop"},
	} {
		assert.Equal(t, want, o.String(), "%+v is named", o)
	}
}

// FuzzRead reads what nobody would write by paths that nobody would: it ends, and what is healthy has a
// revision that can be recorded.
func FuzzRead(f *testing.F) {
	f.Add("Kustomization", ".status.x", `{.status.conditions[?(@.type=="Ready")].status}`, `{"status": {"x": "1", "conditions": [{"type": "Ready", "status": "True"}]}}`)
	f.Add("Deployment", "", "", `{"metadata": {"generation": 1}, "spec": {"replicas": -1}, "status": {"observedGeneration": 1e300}}`)
	f.Add("HelmRelease", "{.a[::0]}", "{.a[-1:]}=x", `{"a": [1, 2], "status": {"history": [{}]}}`)
	f.Fuzz(func(t *testing.T, kind, revision, ready, text string) {
		if object.CheckPath(revision) != nil || object.CheckReady(ready) != nil {
			return
		}
		var live map[string]any
		if json.Unmarshal([]byte(text), &live) != nil {
			return
		}
		o := object.Object{Kind: kind, Revision: revision, Ready: ready}
		r := o.Read(live)
		if r.Healthy && (r.Revision == "" || r.Unknown || len(r.Revision) > 200) || !r.Healthy && r.Why == "" {
			t.Errorf("it is read as %+v", r)
		}
	})
}

// The table of the reference is true.
func TestEachFormOfARevisionIsComparedAsTheReferenceSays(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/revisions.md")
	require.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 6 || !strings.Contains(cells[2], "`") {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `–")
		}
		kind, source, says, part, want := cells[0], cells[1], cells[2], cells[3], cells[4]
		entry := fmt.Sprintf(`{"chartVersion": %q, "status": "deployed"}`, says)
		if source == "OCIRepository" {
			entry = strings.Replace(entry, "{", `{"ociDigest": "sha256:78f4", `, 1)
		}
		object := object.Object{Kind: kind, Part: object.Part(part)}
		got := object.Read(live(t, map[string]string{
			"Kustomization": fmt.Sprintf(`{"status": {"lastAppliedRevision": %q}}`, says),
			"HelmRelease":   `{"status": {"history": [` + entry + `]}}`,
			"Application":   fmt.Sprintf(`{"status": {"sync": {"status": "Synced", "revision": %q}}}`, says),
		}[kind]))
		if image := strings.HasPrefix(source, "image"); image {
			got = object.Read(live(t, fmt.Sprintf(`{"spec": {"template": {"spec": {"containers": [{"image": %q}]}}}}`, says)))
		}
		assert.Equal(t, want, got.Revision, line)
		rows++
	}
	assert.Greater(t, rows, 20)
}
