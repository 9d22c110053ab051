package kubernetes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// sweepTimeout is how long those who end may be kept by what others left.
const sweepTimeout = 5 * time.Second

// Close removes Pods of dead runs that ended long ago, if this engine had any itself, and releases
// the connections. Other Pods are left alone.
//
// A run that has to do with the resources of a dead one removes what that left, at once. Resources
// that nobody asks for any more have no such run.
func (e *Engine) Close() error {
	if e.ran.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
		defer cancel()
		if err := e.sweep(ctx, time.Now()); err != nil {
			e.log.DebugContext(ctx, "Pods of dead runs are left for others to remove", "namespace", e.options.Namespace, "error", err)
		}
	}
	return e.Cluster.Close()
}

func (e *Engine) sweep(ctx context.Context, now time.Time) error {
	pods, err := e.api.list(ctx, selector(nil))
	if err != nil {
		return err
	}
	for i := range pods {
		if ofRun(&pods[i]) && longOver(&pods[i], now) {
			if err := e.api.delete(ctx, pods[i].Name, 0); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("remove Pod %s: %w", pods[i].Name, err)
			}
		}
	}
	return nil
}

// ofRun reports whether a run made a Pod. What a Pod is managed by anybody may say of theirs, such as
// of the Pods of a Job.
func ofRun(pod *corev1.Pod) bool { return labelsOf(pod) != nil && len(pod.OwnerReferences) == 0 }

// longOver reports whether a Pod ended so long ago that its run is dead: that removes it at once.
func longOver(pod *corev1.Pod, now time.Time) bool {
	if !over(pod) {
		return false
	}
	last := pod.CreationTimestamp.Time
	for _, name := range []string{prepareContainer, mainContainer} {
		if s := status(pod, name); s != nil && s.State.Terminated != nil && s.State.Terminated.FinishedAt.After(last) {
			last = s.State.Terminated.FinishedAt.Time
		}
	}
	return now.Sub(last) > leftFor
}
