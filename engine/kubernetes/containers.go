package kubernetes

import (
	"context"
	"errors"
	"fmt"

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
	case errors.Is(err, errUnconfirmed):
		return engine.Exit{}, err
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

// Remove kills the Pod if it runs, and returns when it is gone. A node that does not answer does
// not say that: then it is an error.
func (c *Cluster) Remove(ctx context.Context, id string) error { return c.remove(ctx, id, 1) }

// remove removes a Pod whose containers have so many seconds to end. With 0 nobody waits for
// the node to say that nothing of it runs any more.
func (c *Cluster) remove(ctx context.Context, id string, grace int64) error {
	err := persist(ctx, func() error { return c.api.delete(ctx, id, grace) })
	if err == nil {
		_, err = c.follow(ctx, id, func(*corev1.Pod) bool { return false })
	}
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("remove Pod %s: %w", id, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w, after %w", c.wrap("remove Pod "+id, err), context.Cause(ctx))
	case errors.Is(err, errUnconfirmed):
		return err
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
