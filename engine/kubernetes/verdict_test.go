package kubernetes

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
		"a node pauses between pulls":      {status: state(prepareContainer, waiting("ImagePullBackOff"))},
		"a registry is away":               {status: state(prepareContainer, waiting("RegistryUnavailable"))},
		"a node is busy":                   {status: state(mainContainer, waiting("CreateContainerError"))},
		"a signature is wrong":             {state(mainContainer, waiting("SignatureValidationFailed")), engine.ErrNoImage, "--image-pull-secret"},
		"a node has just been started": {status: state(mainContainer, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CreateContainerConfigError", Message: "services have not yet been read at least once, cannot construct envvars"}})},
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

// What stands in the names of images and in addresses is no answer of a registry.
func TestWhichFailuresOfAPullAreFinal(t *testing.T) {
	const image = "registry.example:4030/denied/not-found@sha256:4014030000000000000000000000000000000000000000000000000000000404"
	const pull = `Back-off pulling image "` + image + `": ErrImagePull: rpc error: code = Unknown desc = failed to pull and unpack image "` + image + `": failed to resolve reference "` + image + `": `
	const copied = `initializing source docker://` + image + `: `
	for message, final := range map[string]bool{
		pull + image + ": not found": true,
		pull + "unexpected status from HEAD request to https://registry.example:4030/v2/x/manifests/sha256:1: 401 Unauthorized":                                        true,
		pull + "unexpected status from HEAD request to https://registry.example:4030/v2/x/manifests/sha256:1: 403 Forbidden":                                           true,
		pull + "failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://registry.example/token?a=b: 403 Forbidden":         true,
		pull + "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed":                  true,
		pull + "pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials":                           true,
		copied + "reading manifest sha256:403 in registry.example:4030/denied/not-found: manifest unknown":                                                             true,
		copied + "reading manifest sha256:403 in registry.example:4030/denied/not-found: name unknown: repository name not known to registry":                          true,
		copied + "reading manifest sha256:403 in registry.example:4030/denied/not-found: unauthorized: access to the requested resource is not authorized":             true,
		copied + "reading manifest sha256:403 in registry.example:4030/denied/not-found: errors:\ndenied: requested access to the resource is denied\nunauthorized: x": true,
		copied + "Requesting bearer token: invalid status code from registry 403 (Forbidden)":                                                                          true,
		pull: false,
		pull + "failed to do request: Head \"https://registry.example:4030/v2/denied/not-found/manifests/sha256:401403\": dial tcp 10.0.0.1:403: connect: connection refused":         false,
		pull + "unexpected status from HEAD request to https://registry.example:4030/v2/x/manifests/sha256:403: 503 Service Unavailable":                                              false,
		pull + "failed to do request: Head \"https://registry.example/\": dial tcp: lookup unauthorized.registry.example on 10.0.0.10:53: server misbehaving":                         false,
		pull + "failed to extract layer sha256:401: write /var/lib/containerd/403: no space left on device":                                                                           false,
		copied + "pinging container registry registry.example:4030: Get \"https://registry.example:4030/v2/\": context deadline exceeded":                                             false,
		pull + "unexpected status from HEAD request to https://registry.example:4030/v2/x/manifests/sha256:1: 429 Too Many Requests\ntoomanyrequests: pull rate limit: access denied": false,
		copied + "received unexpected HTTP status: 502 Bad Gateway":                                                                                                                   false,
	} {
		for _, reason := range []string{"ErrImagePull", "ImagePullBackOff"} {
			err := failed(&corev1.Pod{Status: state(mainContainer, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})})
			assert.False(t, (err != nil) != final || final && !errors.Is(err, engine.ErrNoImage), "%s: %s\n%v", reason, message, err)
		}
	}
}
