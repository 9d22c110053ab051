package kubernetes

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/deployster-go/deployster/engine"
)

func state(container string, s corev1.ContainerState) corev1.PodStatus {
	statuses := []corev1.ContainerStatus{{Name: container, Image: "registry.example/x@sha256:1", State: s}}
	if container == prepareContainer {
		return corev1.PodStatus{InitContainerStatuses: statuses}
	}
	return corev1.PodStatus{ContainerStatuses: statuses}
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "the message"}}
}

func ended(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: "the message"}}
}

func unscheduled(why string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why,
	}}}
}

func TestWhatTheStatusOfAPodMeans(t *testing.T) {
	for name, c := range map[string]struct {
		status corev1.PodStatus
		is     error  // what the error is
		says   string // "" is none: it goes on, or ended by itself
	}{
		"it is made":                       {status: corev1.PodStatus{}},
		"its image is pulled":              {status: state(mainContainer, waiting("ContainerCreating"))},
		"a pull failed and is tried again": {status: state(mainContainer, waiting("ErrImagePull"))},
		"a registry refuses it":            {state(mainContainer, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "x: not found"}}), engine.ErrNoImage, "not found"},
		"no pull will succeed":             {state(prepareContainer, waiting("ImagePullBackOff")), engine.ErrNoImage, "--image-pull-secret"},
		"a claim is missing":               {state(mainContainer, waiting("CreateContainerConfigError")), nil, "the message"},
		"no node has room":                 {status: unscheduled("0/1 nodes are available: 1 Insufficient memory.")},
		"it ended":                         {status: state(mainContainer, ended(7, "Error"))},
		"it was killed for lack of memory": {status: state(mainContainer, ended(137, "OOMKilled"))},
		"preparing failed":                 {state(prepareContainer, ended(125, "Error")), nil, "preparing the Pod ended with 125"},
		"the node lost it":                 {state(mainContainer, ended(137, "ContainerStatusUnknown")), nil, "does not know"},
		"it was evicted":                   {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}, nil, "Evicted: low on memory"},
		"its time is over":                 {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}, engine.ErrTimeout, "DeadlineExceeded"},
	} {
		err := failed(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps"}, Status: c.status})
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	exit := exitOf(state(mainContainer, ended(137, "OOMKilled")).ContainerStatuses[0].State.Terminated)
	if exit != (engine.Exit{Code: 137, OOMKilled: true}) {
		t.Errorf("it exited with %+v", exit)
	}
}
