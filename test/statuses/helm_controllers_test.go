//go:build controllers

package statuses

import (
	"maps"
	"testing"

	"github.com/deployster-go/deployster/pipeline/promotion/object"
)

// released is a HelmRelease of a chart that is packed from a git repository, which is recorded.
type released struct{ *kustomized }

func (h *released) path() string {
	return "/apis/helm.toolkit.fluxcd.io/v2/namespaces/" + h.namespace + "/helmreleases/shop"
}

func newReleased(t testing.TB, c *client, name, about string) *released {
	t.Helper()
	h := &released{&kustomized{newRecorder(t, c, name, version(t, "helm-controller"), about), newRepository(t), "main", map[string][]string{}}}
	h.follows(h.path(), object.Object{Kind: "HelmRelease"})
	h.truth(h.workload(), rolledOut)
	return h
}

// chart pushes a version of the chart.
func (h *released) chart(did, version, image string, change ...func(spec fields)) {
	h.Helper()
	h.fetches(did, h.commits(version, image, change...), version)
}

// commits commits a version of the chart.
func (h *released) commits(version, image string, change ...func(spec fields)) (commit string) {
	h.Helper()
	return h.repository.commit(map[string]string{
		"Chart.yaml":          manifest(fields{"apiVersion": "v2", "name": "shop", "version": version}),
		"values.yaml":         "image: " + image + "\nversion: " + version + "\n",
		"templates/shop.yaml": manifest(shop("{{ .Values.version }}", "{{ .Values.image }}", change...)),
	})
}

// fetches has a version of the chart fetched.
func (h *released) fetches(did, commit, version string) {
	h.Helper()
	artifact := h.repository.artifact(commit, "shop/", version)
	h.did(did)
	h.publish(h, h.source("helmcharts"), "HelmChart", fields{"interval": "1h", "chart": "shop", "sourceRef": fields{"kind": "GitRepository", "name": "shop"}}, artifact)
}

// declare makes the HelmRelease, or changes it.
func (h *released) declare(did string, change fields) {
	h.Helper()
	h.did(did)
	spec := fields{
		"interval": "1h", "timeout": "6s", "chartRef": fields{"kind": "HelmChart", "name": "shop"},
	}
	maps.Copy(spec, change)
	h.declares(h.path(), fields{"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": fields{"name": "shop"}, "spec": spec})
}

// first is the newest entry of its history.
func first(live fields) any {
	status, _ := live["status"].(fields)
	all, _ := status["history"].([]any)
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// runs waits until a version is deployed, and the controller has said so.
func (h *released) runs(version string) {
	h.Helper()
	h.until("it runs "+version, func(live fields) bool {
		return text(first(live), "chartVersion") == version && text(first(live), "status") == "deployed" && h.observed(live) && text(condition(live, "Ready"), "status") == "True"
	})
}

// fails waits until it has failed for a reason.
func (h *released) fails(reason string) {
	h.Helper()
	h.until("it fails: "+reason, func(live fields) bool {
		ready := condition(live, "Ready")
		return text(ready, "status") == "False" && text(ready, "reason") == reason && text(ready, "observedGeneration") == text(live, "metadata", "generation")
	})
}

func helmReleases(t *testing.T, c *client) {
	startFlux(t, c, "helm-controller")
	remediated := fields{"upgrade": fields{"remediation": fields{"retries": 0, "remediateLastFailure": true, "strategy": "rollback"}}}
	for name, tell := range map[string]struct {
		about string
		run   func(h *released)
	}{
		"helmrelease-upgrade-fails": {"An upgrade whose Pods never start fails and stays, and the next version repairs it.", func(h *released) {
			h.chart("pushes 1.0.0", "1.0.0", pause)
			h.declare("makes the HelmRelease", nil)
			h.runs("1.0.0")
			h.chart("pushes 1.1.0, whose Pods never start", "1.1.0", missing)
			h.fails("UpgradeFailed")
			h.chart("pushes 1.2.0", "1.2.0", pause)
			h.runs("1.2.0")
			h.ends("1.2.0", "1.0.0", "1.2.0")
		}},
		"helmrelease-rolled-back": {"An upgrade whose Pods never start is rolled back, and the next version is good.", func(h *released) {
			h.chart("pushes 1.0.0", "1.0.0", pause)
			h.declare("makes the HelmRelease with rollback as remediation", remediated)
			h.runs("1.0.0")
			h.chart("pushes 1.1.0, whose Pods never start", "1.1.0", missing)
			h.until("it is rolled back", func(live fields) bool { return text(condition(live, "Remediated"), "status") == "True" })
			h.rests()
			h.chart("pushes 1.2.0", "1.2.0", pause)
			h.runs("1.2.0")
			h.ends("1.2.0", "1.0.0", "1.2.0")
		}},
		"helmrelease-slow-rollout": {"An upgrade takes some seconds until its Pods are available.", func(h *released) {
			h.chart("pushes 1.0.0", "1.0.0", pause)
			h.declare("makes the HelmRelease", fields{"timeout": "2m"})
			h.runs("1.0.0")
			h.chart("pushes 1.1.0, whose Pods are available after 5s", "1.1.0", pause, slowly)
			h.runs("1.1.0")
			h.ends("1.1.0", "1.0.0", "1.1.0")
		}},
		"helmrelease-values-fail": {"Values of the same chart fail, and are taken back.", func(h *released) {
			h.chart("pushes 1.0.0", "1.0.0", pause)
			h.declare("makes the HelmRelease", nil)
			h.runs("1.0.0")
			h.declare("has it use an image that does not exist", fields{"values": fields{"image": missing}})
			h.fails("UpgradeFailed")
			h.declare("takes that back", nil)
			h.runs("1.0.0")
			h.ends("1.0.0", "1.0.0")
		}},
		"helmrelease-values-rolled-back": {"Values of the same chart fail and are rolled back, and then are taken back.", func(h *released) {
			h.chart("pushes 1.0.0", "1.0.0", pause)
			h.declare("makes the HelmRelease with rollback as remediation", remediated)
			h.runs("1.0.0")
			bad := maps.Clone(remediated)
			bad["values"] = fields{"image": missing}
			h.declare("has it use an image that does not exist", bad)
			h.until("it is rolled back", func(live fields) bool { return text(condition(live, "Remediated"), "status") == "True" })
			h.rests()
			h.declare("takes that back", remediated)
			h.runs("1.0.0")
			h.ends("1.0.0", "1.0.0")
		}},
		"helmrelease-suspended": {"It is suspended while a version is pushed, and resumed.", func(h *released) {
			h.chart("pushes 1.0.0", "1.0.0", pause)
			h.declare("makes the HelmRelease", nil)
			h.runs("1.0.0")
			h.declare("suspends it", fields{"suspend": true})
			h.chart("pushes 1.1.0", "1.1.0", pause)
			h.rests()
			h.declare("resumes it", nil)
			h.runs("1.1.0")
			h.ends("1.1.0", "1.0.0", "1.1.0")
		}},
		"helmrelease-interval": {"Its interval is changed, and nothing else.", func(h *released) {
			h.chart("pushes 1.0.0", "1.0.0", pause)
			h.declare("makes the HelmRelease", nil)
			h.runs("1.0.0")
			h.declare("changes the interval to 2s", fields{"interval": "2s"})
			h.until("it has seen that", func(live fields) bool { return text(live, "metadata", "generation") == "2" && h.observed(live) })
			h.rests()
			h.declare("changes the interval to 1h", nil)
			h.until("it has seen that", func(live fields) bool { return text(live, "metadata", "generation") == "3" && h.observed(live) })
			h.ends("1.0.0", "1.0.0")
		}},
		"helmrelease-install-fails": {"The first version fails and is uninstalled, and the next one is good.", func(h *released) {
			h.chart("pushes 1.0.0, whose Pods never start", "1.0.0", missing)
			h.declare("makes the HelmRelease with uninstall as remediation", fields{"install": fields{"remediation": fields{"retries": 0, "remediateLastFailure": true}}})
			h.until("it is uninstalled", func(live fields) bool { return text(condition(live, "Remediated"), "status") == "True" })
			h.rests()
			h.chart("pushes 1.1.0", "1.1.0", pause)
			h.runs("1.1.0")
			h.ends("1.1.0", "1.1.0")
		}},
		"helmrelease-chart-broken": {"A chart cannot be rendered, and the next one repairs it.", func(h *released) {
			h.chart("pushes 1.0.0", "1.0.0", pause)
			h.declare("makes the HelmRelease", nil)
			h.runs("1.0.0")
			h.chart("pushes 1.1.0, whose template is no template", "1.1.0", pause, func(spec fields) { spec["paused"] = "{{ no }}" })
			h.fails("UpgradeFailed")
			h.chart("pushes 1.2.0", "1.2.0", pause)
			h.runs("1.2.0")
			h.ends("1.2.0", "1.0.0", "1.2.0")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tell.run(newReleased(t, c, name, tell.about))
		})
	}
}
