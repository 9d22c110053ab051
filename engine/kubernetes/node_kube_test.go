//go:build kube

package kubernetes

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// goTo has the Pods of an engine go to a node.
func (f *fixture) goTo(node string) {
	f.options.NodeSelector, f.options.Tolerations = map[string]string{corev1.LabelHostname: node}, []string{kubetest.Taint}
}

// Pods go to the node that is selected. What becomes of them when that is lost nobody knows: who
// runs them is told so, and waits for nothing that may never come.
func TestANodeIsSelectedAndLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Restricted)
	f.cluster.HoldApart(t)
	f.unconfirmed = 20 * time.Second
	begin := func(node string) underway {
		t.Helper()
		f.goTo(node)
		u := f.begin(t)
		if pod, err := f.api.get(t.Context(), u.pod); err != nil || pod.Spec.NodeName != node {
			t.Errorf("a Pod for %s is on %s, %v", node, pod.Spec.NodeName, err)
		}
		return u
	}
	fails := func(u underway, node string, is error, words string) {
		t.Helper()
		err := <-u.ended
		for _, want := range []string{"Pod " + u.pod + " on node " + node, words, "may have done all of its work, or part of it"} {
			if err == nil || !strings.Contains(err.Error(), want) || is != nil && !errors.Is(err, is) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}

	first, removed, drained, cut := begin("node-1"), begin(kubetest.Apart), begin(kubetest.Apart), begin(kubetest.Apart)
	must(t, f.api.delete(t.Context(), first.pod, 1))
	fails(first, "node-1", nil, "removed by somebody else")

	// The network of a node is gone: the cluster gives its Pods up, or an administrator does.
	thaw := f.cluster.FreezeNode(t)
	must(t, f.api.delete(t.Context(), removed.pod, 0))
	must(t, f.api.delete(t.Context(), drained.pod, 1))
	fails(removed, kubetest.Apart, nil, "removed by somebody else")
	fails(drained, kubetest.Apart, engine.ErrUnavailable, "does not confirm")
	thaw()
	patient := *f.Cluster // as a busy node needs a while
	patient.unconfirmed = confirmation
	must(t, patient.Remove(t.Context(), drained.pod))

	// Its kubelet is gone, and the program runs on.
	restore := f.cluster.LoseNode(t)
	fails(cut, kubetest.Apart, engine.ErrUnavailable, "has not said")
	for what, err := range map[string]error{"remove": f.Remove(t.Context(), cut.pod), "wait": func() error { _, err := f.Wait(t.Context(), cut.pod); return err }()} {
		if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "kubectl delete pod "+cut.pod+" --namespace "+f.options.Namespace+" --force") {
			t.Errorf("%s what is left there: %v", what, err)
		}
	}
	must(t, f.api.delete(t.Context(), cut.pod, 0))
	if left, err := f.Containers(t.Context(), nil); err != nil || slices.ContainsFunc(left, func(c engine.Container) bool { return c.ID == cut.pod }) {
		t.Errorf("what is given up is left: %v, %v", left, err)
	}
	restore()
	if exit, _, err := runProbe(t, f.Engine, engine.Spec{Image: f.ref, Args: []string{"exit", "3"}}); err != nil || exit.Code != 3 {
		t.Errorf("a run on the node that is back: %v, %v", exit, err)
	}
}
