package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/deployster-go/deployster/engine"
)

// retryAfter is how long a cluster that does not answer is left alone.
const retryAfter = 500 * time.Millisecond

// errUnconfirmed is the error of a Pod that is to end, of which its node does not say that it did.
// A cluster never says that in its place: what cannot be reached may well run.
var errUnconfirmed = errors.New("its program may still run")

// following follows one Pod.
type following struct {
	*Cluster
	until func(*corev1.Pod) bool
	last  *corev1.Pod
	late  <-chan time.Time // of a Pod that is to end: by then its node would have said so
}

// follow returns the Pod once it is as somebody waits for, or the error that it is not
// there any more. While the cluster does not answer it tries again, for as long as a
// control plane may take to be started anew.
func (c *Cluster) follow(ctx context.Context, id string, until func(*corev1.Pod) bool) (*corev1.Pod, error) {
	f := following{Cluster: c, until: until}
	answered := time.Now()
	for {
		pod, err := c.api.get(ctx, id)
		got := err == nil // what a Pod is like that cannot be asked for nobody knows
		if got {
			answered = time.Now()
			if f.sees(pod) {
				return pod, nil
			}
			if pod, err = f.watch(ctx, pod); pod != nil {
				return pod, nil
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !passing(err), err != nil && time.Since(answered) > time.Minute:
			return nil, err
		case got && f.isLate(): // also where no watch lasts
			return nil, f.lost()
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
		}
	}
}

// sees reports whether the Pod is as somebody waits for.
func (f *following) sees(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil && f.late == nil {
		var grace time.Duration
		if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
			grace = time.Duration(*seconds) * time.Second
		}
		f.late = time.After(grace + f.unconfirmed)
	}
	f.last = pod
	return f.until(pod)
}

// watch returns the Pod once it is as somebody waits for, and nothing when the watch ends
// before that, as each does in time.
func (f *following) watch(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	watching, err := f.api.watch(ctx, pod.Name, pod.ResourceVersion)
	if err != nil {
		return nil, err
	}
	defer watching.Stop()
	for {
		select {
		case <-f.late:
			return nil, f.lost()
		case event, more := <-watching.ResultChan():
			next, ok := event.Object.(*corev1.Pod)
			if !more || !ok || event.Type == "DELETED" || next.UID != pod.UID {
				return nil, nil // it is asked for again
			}
			if f.sees(next) {
				return next, nil
			}
		}
	}
}

// isLate reports whether the node of a Pod that is to end would have said by now that it has.
func (f *following) isLate() bool {
	select {
	case <-f.late:
		return true
	default:
		return false
	}
}

// lost is the error of a Pod that does not go: its node is silent, or it has ended and is kept, by
// its finalizers or by a node that does not let go of what it had.
func (f *following) lost() error {
	name, in := f.last.Name, f.last.Namespace
	switch {
	case over(f.last) && len(f.last.Finalizers) > 0:
		return fmt.Errorf("in namespace %s Pod %s has ended, and its finalizers keep it: %s; whoever set them has to take them away, then repeat this",
			in, name, strings.Join(f.last.Finalizers, ", "))
	case over(f.last):
		return fmt.Errorf("%w: in namespace %s Pod %s has ended, and node %s does not let go of what it had, such as a volume: `kubectl describe pod %s --namespace %s` says of what; when that is gone, or the node works again, repeat this",
			engine.ErrUnavailable, in, name, f.last.Spec.NodeName, name, in)
	}
	return fmt.Errorf("%w: Pod %s in namespace %s is to end, and node %s does not confirm that it has: %w; start the node again, or where it is off for good remove the Pod with `kubectl delete pod %s --namespace %s --force`, and repeat this",
		engine.ErrUnavailable, name, in, f.last.Spec.NodeName, errUnconfirmed, name, in)
}
