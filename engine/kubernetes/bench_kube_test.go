//go:build kube

package kubernetes

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/internal/must"
)

func median(times []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// BenchmarkActionsOverTwoNodes has one Pod that serves on each of two nodes, and gives each of them
// 500 requests. Starting the Pods and removing them is part of what an action takes.
func BenchmarkActionsOverTwoNodes(b *testing.B) {
	const each = 500
	near, far := newFixture(b, Restricted), newFixture(b, Restricted)
	far.cluster.HoldApart(b)
	near.goTo("node-1")
	far.goTo(kubetest.Apart)
	var all []time.Duration
	for b.Loop() {
		ended := make(chan error, 2)
		served := []*echo{newEcho(each), newEcho(each)}
		for i, f := range []*fixture{near, far} {
			go func() {
				_, err := f.Run(b.Context(), engine.Spec{Image: f.ref, Args: []string{"cat"}}, engine.IO{Stdin: served[i], Stdout: served[i]})
				ended <- err
			}()
		}
		for range served {
			require.NoError(b, <-ended)
		}
		for _, s := range served {
			require.Len(b, s.took, each, "answers")
			all = append(all, s.took...)
		}
	}
	b.ReportMetric(milliseconds(b.Elapsed())/float64(b.N*2*each), "ms/action")
	b.ReportMetric(milliseconds(median(all)), "ms/request")
}

// BenchmarkOneShotAgainstPlainAttach runs a cat with 1 KB as a Pod of the engine and as `kubectl run --attach --stdin
// --rm` does, in turn: create, wait until it runs, attach, wait until it has ended, delete, and wait for that.
func BenchmarkOneShotAgainstPlainAttach(b *testing.B) {
	f := newFixture(b, Restricted)
	f.goTo("node-1")
	sent := strings.Repeat("x", 1024)
	var ours, plain []time.Duration
	for b.Loop() {
		begun := time.Now()
		var got bytes.Buffer
		exit, err := f.Run(b.Context(), engine.Spec{Image: f.ref, Args: []string{"cat"}}, engine.IO{Stdin: strings.NewReader(sent), Stdout: &got})
		require.True(b, err == nil && exit.Code == 0 && got.String() == sent, "%v, %v, %d bytes", exit, err, got.Len())
		ours = append(ours, time.Since(begun))
		begun = time.Now()
		if code, got := f.plainly(b, sent, "cat"); code != 0 || got != sent {
			b.Fatalf("plainly: %d, %d bytes", code, len(got))
		}
		plain = append(plain, time.Since(begun))
	}
	b.ReportMetric(milliseconds(median(ours)), "engine-ms")
	b.ReportMetric(milliseconds(median(plain)), "plain-ms")
	b.ReportMetric(float64(median(ours))/float64(median(plain)), "ratio")
}

// plainly runs a Pod without the shim.
func (f *fixture) plainly(b *testing.B, input string, args ...string) (code int32, output string) {
	image := must.Get(f.held(b.Context(), f.ref))(b)
	security, _, err := identity(Restricted, "", image.config)
	require.NoError(b, err)
	no := false
	var user int64 = unprivileged
	security.RunAsUser = &user
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, EnableServiceLinks: &no, AutomountServiceAccountToken: &no,
		NodeSelector:    f.options.NodeSelector,
		SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: mainContainer, Image: image.pinned, ImagePullPolicy: corev1.PullIfNotPresent, Args: args, Stdin: true, StdinOnce: true, SecurityContext: security,
		}},
	}}
	made, err := f.api.create(b.Context(), pod)
	require.NoError(b, err)
	require.NoError(b, must.Fail(f.follow(b.Context(), made.Name, started)))
	executor := must.Get(f.api.attach(made.Name, mainContainer))(b)
	var got bytes.Buffer
	require.NoError(b, executor.StreamWithContext(b.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(input), Stdout: &got, Stderr: io.Discard}))
	ended := must.Get(f.follow(b.Context(), made.Name, over))(b)
	require.NoError(b, f.remove(b.Context(), made.Name, 0))
	return terminated(ended).ExitCode, got.String()
}
