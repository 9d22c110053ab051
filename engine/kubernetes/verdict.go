package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/pattern"
)

// The containers of a Pod.
const (
	prepareContainer = "prepare"
	mainContainer    = "main"
)

// hopeless are the reasons of containers that wait for what does not come by itself, and passingReasons
// those of what a node tries again: a registry may be away for a while, and a busy node late.
var (
	hopeless       = []string{"InvalidImageName", "ErrImageNeverPull", "SignatureValidationFailed", "CreateContainerConfigError", "RunContainerError", "StartError"}
	passingReasons = []string{"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "CreateContainerError"}
)

// status is that of a container of a Pod, nil while there is none.
func status(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if s.Name == container {
			return &s
		}
	}
	return nil
}

// terminated is how the program ended, nil while it has not, or never ran.
func terminated(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if main := status(pod, mainContainer); main != nil {
		return main.State.Terminated
	}
	return nil
}

// started reports whether the program's container runs or has run.
func started(pod *corev1.Pod) bool {
	main := status(pod, mainContainer)
	return main != nil && (main.State.Running != nil || main.State.Terminated != nil)
}

// over reports whether nothing of a Pod runs any more, or will.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// exitOf is the exit of a program as a cluster reports it.
func exitOf(ended *corev1.ContainerStateTerminated) engine.Exit {
	return engine.Exit{Code: int(ended.ExitCode), OOMKilled: ended.Reason == "OOMKilled"}
}

// failed returns why the program of a Pod will not run or did not end by itself, or nil.
func failed(pod *corev1.Pod) error {
	if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" { // Evicted, DeadlineExceeded, NodeAffinity, …
		cause := fmt.Errorf("the cluster ended the Pod: %s: %s", pod.Status.Reason, pod.Status.Message)
		if pod.Status.Reason == "DeadlineExceeded" {
			return fmt.Errorf("%w: %w", engine.ErrTimeout, cause)
		}
		return cause
	}
	for _, name := range []string{prepareContainer, mainContainer} {
		s := status(pod, name)
		switch {
		case s == nil:
		case s.State.Waiting != nil && final(s.State.Waiting):
			return waitingError(s)
		case s.State.Terminated == nil:
		case s.State.Terminated.Reason == "ContainerStatusUnknown":
			return fmt.Errorf("the node does not know how the program ended: %s", s.State.Terminated.Message)
		case s.State.Terminated.Reason == "StartError", s.State.Terminated.Reason == "ContainerCannotRun":
			return &engine.SpecError{Cause: fmt.Errorf("the container cannot be started: %s", s.State.Terminated.Message)}
		case name == prepareContainer && s.State.Terminated.ExitCode != 0:
			return fmt.Errorf("preparing the Pod ended with %d (%s)", s.State.Terminated.ExitCode, s.State.Terminated.Reason)
		}
	}
	return nil
}

// claimless is what a scheduler says of a Pod that wants a claim which is not there, or not for long.
var claimless = pattern.Lazy(`persistentvolumeclaim "([^"]+)" (not found|is being deleted)`)

// noClaim is that a plug names a claim that there is not, nil where there are all. No node will be
// found for the Pod until somebody makes it. A scheduler learns of a new claim a moment later than
// who made it, and says this until then.
func noClaim(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		if said := claimless().FindStringSubmatch(c.Message); said != nil {
			return &engine.SpecError{Cause: fmt.Errorf("the claim %[1]s, which a plug names, cannot be used: persistentvolumeclaim %[1]q %[2]s in namespace %[3]s: make it, or name another one: `kubectl get persistentvolumeclaims --namespace %[3]s` lists those that there are", said[1], said[2], pod.Namespace)}
		}
	}
	return nil
}

// intervened returns who ends a Pod that does not end by itself, nil while nobody does.
func intervened(pod *corev1.Pod) error {
	if pod.DeletionTimestamp == nil {
		return nil
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return fmt.Errorf("the cluster evicted the Pod: %s: %s", c.Reason, c.Message)
		}
	}
	return errRemoved
}

// troubled returns why a Pod may never start, nil where nothing says so, and how long that must last
// to be believed.
func troubled(pod *corev1.Pod) (time.Duration, error) {
	if err := noClaim(pod); err != nil {
		return claimTimeout, err
	}
	for _, name := range []string{prepareContainer, mainContainer} {
		if s := status(pod, name); s != nil && s.State.Waiting != nil && (slices.Contains(passingReasons, s.State.Waiting.Reason) || newNode(s.State.Waiting)) {
			return retryTimeout, waitingError(s)
		}
	}
	return 0, nil
}

// final reports whether a container will never get what it waits for.
func final(waiting *corev1.ContainerStateWaiting) bool {
	return slices.Contains(hopeless, waiting.Reason) && !newNode(waiting) || strings.Contains(waiting.Reason, "Pull") && refusedPull(waiting.Message)
}

// newNode reports whether a container waits for a kubelet that has just been started.
func newNode(waiting *corev1.ContainerStateWaiting) bool {
	return waiting.Reason == "CreateContainerConfigError" && strings.Contains(waiting.Message, "services have not yet been read")
}

// noImage is what registries answer, by way of containerd and CRI-O, where an image is not there or
// not for this node. Each has a space, which the names of images and URLs have not: their digests,
// ports and paths may look like any answer.
var noImage = pattern.Lazy(`(?i): not found|(?:manifest|name) unknown|404 \(?not found|401 \(?unauthorized|403 \(?forbidden|` +
	`(?:^|: |\n)(?:denied|unauthorized): |access denied|authorization failed|authentication required|no basic auth credentials`)

// refusedPull reports whether a registry will not give an image when it is asked again, as a
// node does a while later: without such an answer a failure means nothing.
func refusedPull(message string) bool {
	return noImage().MatchString(message) && !strings.Contains(message, "429 Too Many Requests") && !strings.Contains(message, "toomanyrequests")
}

// waitingError is why a container will not get what it waits for.
func waitingError(s *corev1.ContainerStatus) error {
	waiting := s.State.Waiting
	err := fmt.Errorf("%s: %s", waiting.Reason, waiting.Message)
	switch {
	case strings.Contains(waiting.Reason, "Image"), waiting.Reason == "RegistryUnavailable", waiting.Reason == "SignatureValidationFailed":
		return fmt.Errorf("%w: the cluster cannot pull %s: %w; if its registry wants credentials name a Secret that has them with --image-pull-secret, or image_pull_secrets of the host", engine.ErrNoImage, s.Image, err)
	case waiting.Reason == "CreateContainerConfigError", waiting.Reason == "RunContainerError", waiting.Reason == "StartError":
		return &engine.SpecError{Cause: err}
	}
	return err
}

// errRemoved is the end of a Pod that somebody else removed.
var errRemoved = errors.New("the Pod was removed by somebody else")

// pending says what a Pod waits for that does not run yet.
func pending(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	for _, name := range []string{prepareContainer, mainContainer} {
		if s := status(pod, name); s != nil && s.State.Waiting != nil && s.State.Waiting.Message != "" {
			return s.State.Waiting.Reason + ": " + s.State.Waiting.Message
		}
	}
	return "node " + pod.Spec.NodeName + " has not started it"
}
