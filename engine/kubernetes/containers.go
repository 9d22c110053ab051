package kubernetes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/deployster-go/deployster/engine"
)

// Containers lists the Pods that carry all the labels.
func (c *Cluster) Containers(ctx context.Context, labels map[string]string) ([]engine.Container, error) {
	pods, err := c.api.list(ctx, selector(labels))
	if err != nil {
		return nil, c.wrap("list Pods", err)
	}
	var containers []engine.Container
	for i := range pods {
		pod := &pods[i]
		has := labelsOf(pod)
		if !carries(has, labels) {
			continue
		}
		containers = append(containers, engine.Container{
			ID: pod.Name, Labels: has, Created: pod.CreationTimestamp.UTC(),
			// What a node does is known a second late: once it has the Pod, that may run.
			Started: pod.Spec.NodeName != "", Running: pod.Spec.NodeName != "" && !over(pod),
		})
	}
	return containers, nil
}

// Wait blocks until the Pod has ended. One whose program never ran counts as ended
// with the code that the shim ends with.
func (c *Cluster) Wait(ctx context.Context, id string) (engine.Exit, error) {
	pod, err := c.follow(ctx, id, func(pod *corev1.Pod) bool { return over(pod) })
	switch {
	case ctx.Err() != nil:
		return engine.Exit{}, fmt.Errorf("wait for Pod %s: %w", id, context.Cause(ctx))
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err):
		return engine.Exit{}, fmt.Errorf("wait for Pod %s in namespace %s: %w", id, c.options.Namespace, engine.ErrNoContainer)
	case err != nil:
		return engine.Exit{}, c.wrap("wait for Pod "+id, err)
	}
	if ended := terminated(pod); ended != nil {
		exit := exitOf(ended)
		exit.Ended = ended.FinishedAt.UTC()
		return exit, nil
	}
	return engine.Exit{Code: 128 + 9}, nil // it was evicted, or never started
}

// Remove kills the Pod if it runs, and returns when it is gone.
func (c *Cluster) Remove(ctx context.Context, id string) error { return c.remove(ctx, id, 1) }

// remove removes a Pod whose containers have so many seconds to end. With 0 nobody waits for
// the node to say that nothing of it runs any more.
func (c *Cluster) remove(ctx context.Context, id string, grace int64) error {
	err := c.api.delete(ctx, id, grace)
	if err == nil {
		_, err = c.follow(ctx, id, func(*corev1.Pod) bool { return false })
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("remove Pod %s: %w", id, context.Cause(ctx))
	case err == nil, apierrors.IsNotFound(err):
		return nil
	}
	return c.wrap("remove Pod "+id, err)
}

// discard removes the Pod of a run, also of one that was cancelled. The outcome of the
// run stands without it: what could not be removed still has its labels, and is found
// by them.
func (c *Cluster) discard(ctx context.Context, id string, ended bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gracePeriod)
	defer cancel()
	var grace int64 = 1
	if ended {
		grace = 0
	}
	if err := c.remove(ctx, id, grace); err != nil {
		c.log.WarnContext(ctx, "a Pod is left behind", "pod", id, "namespace", c.options.Namespace, "error", err)
	}
}

// retryAfter is how long a cluster that does not answer is left alone.
const retryAfter = 500 * time.Millisecond

// follow returns the Pod once it is as somebody waits for, or the error that it is not
// there any more. While the cluster does not answer it tries again, for as long as a
// control plane may take to be started anew.
func (c *Cluster) follow(ctx context.Context, id string, until func(*corev1.Pod) bool) (*corev1.Pod, error) {
	answered := time.Now()
	for {
		pod, err := c.api.get(ctx, id)
		if err == nil {
			answered = time.Now()
			if until(pod) {
				return pod, nil
			}
			if pod, err = c.watch(ctx, pod, until); pod != nil {
				return pod, nil
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !passing(err), err != nil && time.Since(answered) > time.Minute:
			return nil, err
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
		}
	}
}

// watch returns the Pod once it is as somebody waits for, and nothing when the watch ends
// before that, as each does in time.
func (c *Cluster) watch(ctx context.Context, pod *corev1.Pod, until func(*corev1.Pod) bool) (*corev1.Pod, error) {
	watching, err := c.api.watch(ctx, pod.Name, pod.ResourceVersion)
	if err != nil {
		return nil, err
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		next, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type == "DELETED" || next.UID != pod.UID {
			return nil, nil // it is asked for again
		}
		if until(next) {
			return next, nil
		}
	}
	return nil, nil
}
