package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/deployster-go/deployster/engine"
)

// How a cluster is asked that does not answer, or that ends each watch at once.
const (
	restartTimeout = time.Minute            // for which a control plane may be silent that is started anew
	retryAfter     = 500 * time.Millisecond // the first pause; each one doubles the one before
	watchLasts     = 5 * time.Minute        // of a watch, whose connection may be of no use any more
	mostPause      = 4 * time.Second        // less than claimTimeout, so that what changes is seen before that is over
)

// pauseAfter is a pause after so many failures in a row. Those of many Pods do not end at once.
func pauseAfter(failures int) time.Duration {
	most := min(retryAfter<<min(failures-1, 10), mostPause)
	return most - rand.N(most/4) //nolint:gosec // nobody gains from knowing it
}

// pause reports whether it came to its end.
func pause(ctx context.Context, length time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(length):
		return true
	}
}

// persist makes a request that may be made twice, until it is answered or nobody can expect that any more.
func persist(ctx context.Context, request func() error) error {
	begun := time.Now()
	for failures := 1; ; failures++ {
		err := request()
		if err == nil || !passing(err) || time.Since(begun) > restartTimeout || !pause(ctx, pauseAfter(failures)) {
			return err
		}
	}
}

// errUnconfirmed is the error of a Pod that is to end, of which its node does not say that it did.
// A cluster never says that in its place: what cannot be reached may well run.
var errUnconfirmed = errors.New("its program may still run")

// following follows one Pod.
type following struct {
	*Cluster
	until    func(*corev1.Pod) bool
	patience time.Duration // with an API server that does not answer
	last     *corev1.Pod
	late     <-chan time.Time // of a Pod that is to end: by then its node would have said so

	answered time.Time // when the API server was last known to be there
	failures int       // in a row: no answer, or a watch that hardly lasted
}

// follow returns the Pod once it is as somebody waits for, or the error that it is not
// there any more. While the cluster does not answer it tries again, for as long as a
// control plane may take to be started anew.
func (c *Cluster) follow(ctx context.Context, id string, until func(*corev1.Pod) bool) (*corev1.Pod, error) {
	return c.followFor(ctx, restartTimeout, id, until)
}

// followFor is follow with another patience.
func (c *Cluster) followFor(ctx context.Context, patience time.Duration, id string, until func(*corev1.Pod) bool) (*corev1.Pod, error) {
	f := following{Cluster: c, until: until, patience: patience, answered: time.Now()}
	for {
		begun := time.Now()
		pod, err := c.api.get(ctx, id)
		got := err == nil // what a Pod is like that cannot be asked for nobody knows
		if got {
			f.answered = time.Now()
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
		case err != nil && !passing(err), err != nil && time.Since(f.answered) > f.patience:
			return nil, err
		case got && f.isLate(): // also where no watch lasts
			return nil, f.lost()
		}
		if f.failures++; got && time.Since(begun) > mostPause {
			f.failures = 1
		}
		pause(ctx, pauseAfter(f.failures))
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
	ctx, cancel := context.WithTimeout(ctx, watchLasts)
	defer cancel()
	watching, err := f.api.watch(ctx, pod.Name, pod.ResourceVersion)
	if err != nil {
		return nil, err
	}
	defer watching.Stop()
	defer func() { f.answered = time.Now() }()
	for {
		select {
		case <-f.late:
			return nil, f.lost()
		case event, more := <-watching.ResultChan():
			next, ok := event.Object.(*corev1.Pod)
			switch {
			case !more || !ok:
				return nil, nil // it is asked for again
			case event.Type == watch.Bookmark:
			case event.Type == watch.Deleted, next.UID != pod.UID:
				return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
			case f.sees(next):
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
