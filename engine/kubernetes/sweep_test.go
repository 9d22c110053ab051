package kubernetes

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/deployster-go/deployster/engine"
)

func TestOnlyPodsThatEndedLongAgoAreNobodys(t *testing.T) {
	now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now.Add(-ago)) }
	finished := func(ago time.Duration) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: mainContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(ago)}}}}
	}
	for name, c := range map[string]struct {
		created time.Duration
		status  corev1.PodStatus
		want    bool
	}{
		"it runs, for a week":                 {created: 7 * 24 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodRunning}},
		"it waits, for a week":                {created: 7 * 24 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodPending}},
		"it ended just now, after a week":     {created: 7 * 24 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: finished(time.Minute)}},
		"it ended two days ago":               {created: 3 * 24 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: finished(48 * time.Hour)}, want: true},
		"it failed two days ago":              {created: 3 * 24 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: finished(48 * time.Hour)}, want: true},
		"it never began, and was evicted":     {created: 48 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, want: true},
		"it never began, and was evicted now": {created: time.Hour, status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}},
		"a clock of another machine is ahead": {created: -time.Hour, status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: finished(-time.Hour)}},
	} {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(c.created)}, Status: c.status}
		if got := longOver(&pod, now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A namespace has Pods of others, which may say of themselves that deployster manages them.
func TestOnlyPodsOfRunsAreRemoved(t *testing.T) {
	own := map[string]string{labelsAnnotation: encodeLabels(map[string]string{"deployster.run": "x"})}
	var list corev1.PodList
	list.TypeMeta = metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}
	for name, meta := range map[string]metav1.ObjectMeta{
		"of-a-run":           {Annotations: own},
		"of-a-run-as-well":   {Annotations: map[string]string{labelsAnnotation: encodeLabels(nil)}},
		"of-a-job":           {OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "backup"}}},
		"of-a-job-that-lies": {Annotations: own, OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "backup"}}},
		"of-nobody":          {},
		"of-whoever-knows":   {Annotations: map[string]string{labelsAnnotation: "everything"}},
	} {
		pod := aPod(corev1.PodStatus{Phase: corev1.PodSucceeded})
		meta.Name, meta.Labels = name, map[string]string{managedBy: "deployster"}
		pod.ObjectMeta = meta
		list.Items = append(list.Items, *pod)
	}
	var removed []string
	e := onServer(t, func(request string) (int, any) {
		name, removes := strings.CutPrefix(request, "DELETE ")
		if !removes {
			return http.StatusOK, list
		}
		removed = append(removed, name)
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound) // another run was quicker
	})
	err := e.sweep(t.Context(), time.Now())
	if slices.Sort(removed); err != nil || !slices.Equal(removed, []string{"of-a-run", "of-a-run-as-well"}) {
		t.Errorf("it removed %q, %v", removed, err)
	}
}

// Whoever watches over a Pod may die.
func TestNoPodRunsForEver(t *testing.T) {
	for timeout, want := range map[time.Duration]int64{0: 3600, 90 * time.Second: 690, 48 * time.Hour: 48*3600 + 600} {
		p, err := newPlan(engine.Spec{Timeout: timeout, Args: []string{"x"}}, resolved{pinned: "r/x"}, "r/shim", time.Minute, time.Hour)
		require.NoError(t, err)
		pod, err := p.pod(Options{PodSecurity: Restricted})
		if err != nil || pod.Spec.ActiveDeadlineSeconds == nil || *pod.Spec.ActiveDeadlineSeconds != want {
			t.Errorf("with a time limit of %s: %v, %v", timeout, pod, err)
		}
	}
}

func TestWhoEndsAPodIsNamed(t *testing.T) {
	now := metav1.Now()
	evicted := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "evicting"}}}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want string
	}{
		"nobody":            {pod: corev1.Pod{}},
		"nobody yet":        {pod: corev1.Pod{Status: evicted}},
		"somebody":          {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, "removed by somebody else"},
		"who drains a node": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: evicted}, "the cluster evicted the Pod: EvictionByEvictionAPI: evicting"},
	} {
		err := intervened(&c.pod)
		assert.False(t, (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want), "%s: %v", name, err)
	}
}
