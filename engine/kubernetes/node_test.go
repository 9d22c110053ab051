package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/deployster-go/deployster/engine/enginetest"
)

// node is a cluster of one node in this process: its Pods are shims, run as processes of this machine.
// Their logs are as containerd and a kubelet have them. What becomes of each request tests decide.
type node struct {
	t    *testing.T
	shim string

	mu      sync.Mutex
	pods    map[string]*nodePod
	made    int
	refused func(request string) (code int, answer any) // of all requests but to attach, see server; 0 and nil is none
	wire    func() wiring                               // of each attachment
}

// wiring is how a connection to attach behaves.
type wiring struct {
	in, out func(p []byte) error // called before each piece; an error cuts the connection, and errSwallowed does not
	torn    bool                 // the node does not hear that the caller is gone
}

// errSwallowed has a connection stay through which nothing comes any more.
var errSwallowed = errors.New("nothing arrives")

type nodePod struct {
	node    *node
	pod     *corev1.Pod
	process *exec.Cmd
	stdin   io.WriteCloser

	mu       sync.Mutex
	changed  *sync.Cond
	out      []byte // everything that the shim has written
	over     bool
	attached map[*outputOf]bool
	lost     bool // its log is not there
	from     int  // where its log begins: it was begun anew
}

// outputOf is an attachment to the output of a Pod.
type outputOf struct{ to io.Writer }

func aNode(t *testing.T) (*node, *Engine) {
	n := &node{t: t, pods: map[string]*nodePod{}, shim: enginetest.Binary(t, "github.com/deployster-go/deployster/engine/docker/testdata/entrypoint", runtime.GOARCH)}
	t.Cleanup(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, p := range n.pods {
			_ = p.process.Process.Kill()
		}
	})
	config := &rest.Config{Host: "https://cluster.example", Transport: n}
	client, err := newAPI(config, "apps")
	require.NoError(t, err)
	e := &Engine{
		Cluster: &Cluster{options: Options{Namespace: "apps", PodSecurity: Restricted}, config: config, api: client, log: slog.New(slog.DiscardHandler), unconfirmed: confirmation},
		idle:    shimIdle, life: longestLife, lostFor: time.Minute, silence: 300 * time.Millisecond, connect: n.connect,
		known: map[string]resolved{"probe": {pinned: "r/probe"}}, shim: "r/shim",
	}
	return n, e
}

// RoundTrip implements http.RoundTripper.
func (n *node) RoundTrip(r *http.Request) (*http.Response, error) {
	request, name := r.Method, path.Base(r.URL.Path)
	switch {
	case name == "log":
		request, name = "log", path.Base(path.Dir(r.URL.Path))
	case r.URL.Query().Get("watch") != "":
		request = "watch"
	}
	answer := func(code int, body io.Reader) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body), Request: r}, nil
	}
	object := func(code int, of any) (*http.Response, error) {
		text, err := json.Marshal(of)
		require.NoError(n.t, err)
		return answer(code, bytes.NewReader(text))
	}
	if n.refused != nil {
		code, refusal := n.refused(request)
		if lost, is := refusal.(error); is {
			return nil, lost
		}
		if refusal != nil {
			return object(code, refusal)
		}
	}
	if request == http.MethodPost {
		pod := &corev1.Pod{}
		require.NoError(n.t, json.NewDecoder(r.Body).Decode(pod))
		return object(http.StatusCreated, n.make(pod).now())
	}
	n.mu.Lock()
	p := n.pods[name]
	n.mu.Unlock()
	switch {
	case request == "watch":
		return answer(http.StatusOK, strings.NewReader("")) // it ends at once
	case p == nil:
		return object(refusal(http.StatusNotFound, metav1.StatusReasonNotFound))
	case request == "log":
		return answer(http.StatusOK, p.log(r.Context(), r.URL.Query().Get("follow") != ""))
	case request == http.MethodDelete:
		_ = p.process.Process.Kill()
		n.mu.Lock()
		delete(n.pods, name)
		n.mu.Unlock()
	}
	return object(http.StatusOK, p.now())
}

// make starts a Pod, without what prepares it.
func (n *node) make(pod *corev1.Pod) *nodePod {
	main := pod.Spec.Containers[0]
	var argv []string
	for _, word := range append(main.Command[1:], main.Args...) {
		argv = append(argv, strings.ReplaceAll(word, "$$", "$"))
	}
	p := &nodePod{node: n, pod: pod, process: exec.CommandContext(n.t.Context(), n.shim, argv...), attached: map[*outputOf]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.process.Stdout = writerFunc(p.wrote)
	var err error
	p.stdin, err = p.process.StdinPipe()
	require.NoError(n.t, err)
	require.NoError(n.t, p.process.Start())
	go func() {
		_ = p.process.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.over = true
		p.changed.Broadcast()
	}()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made++
	n.pods[pod.Name] = p
	return p
}

// wrote keeps what the shim writes, and gives it to whoever is attached.
func (p *nodePod) wrote(text []byte) (int, error) {
	p.mu.Lock()
	p.out = append(p.out, text...)
	p.changed.Broadcast()
	var all []*outputOf
	for a := range p.attached {
		all = append(all, a)
	}
	p.mu.Unlock()
	for _, a := range all {
		_, _ = a.to.Write(text)
	}
	return len(text), nil
}

// now is the Pod as the cluster knows it.
func (p *nodePod) now() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	pod := p.pod.DeepCopy()
	pod.TypeMeta, pod.UID, pod.Spec.NodeName = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, "1", "node-1"
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod.Status.Phase = corev1.PodRunning
	if p.over {
		code := int32(p.process.ProcessState.ExitCode())
		pod.Status.Phase = corev1.PodFailed
		if code == 0 {
			pod.Status.Phase = corev1.PodSucceeded
		}
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: mainContainer, State: state}}
	return pod
}

// log is that of the Pod: of whole lines while it runs, and without the carriage returns at their ends.
func (p *nodePod) log(ctx context.Context, follow bool) io.Reader {
	from, to := io.Pipe()
	stop := context.AfterFunc(ctx, func() {
		_ = to.CloseWithError(ctx.Err())
		p.changed.Broadcast()
	})
	go func() {
		defer stop()
		p.mu.Lock()
		at := p.from
		p.mu.Unlock()
		for {
			p.mu.Lock()
			for follow && !p.over && ctx.Err() == nil && bytes.LastIndexByte(p.out, '\n') < at {
				p.changed.Wait()
			}
			over, lost, text := p.over, p.lost, p.out[at:]
			p.mu.Unlock()
			if lost {
				_, _ = io.WriteString(to, "unable to retrieve container logs for containerd://1")
				_ = to.Close()
				return
			}
			if !over {
				text = text[:bytes.LastIndexByte(text, '\n')+1]
			}
			if _, err := io.WriteString(to, strings.ReplaceAll(string(text), "\r\n", "\n")); err != nil {
				return
			}
			if at += len(text); over || !follow {
				_ = to.Close()
				return
			}
		}
	}()
	return from
}

// connect attaches to a Pod. At the end of that its input ends, as it does where stdin is once.
func (n *node) connect(pod, _ string) (remotecommand.Executor, error) {
	n.mu.Lock()
	p := n.pods[pod]
	n.mu.Unlock()
	if p == nil {
		return nil, errors.New("there is no such Pod")
	}
	return streaming(p.attach), nil
}

// streaming is what happens when somebody attaches.
type streaming func(context.Context, remotecommand.StreamOptions) error

func (s streaming) Stream(o remotecommand.StreamOptions) error { return s(context.Background(), o) }

func (s streaming) StreamWithContext(ctx context.Context, o remotecommand.StreamOptions) error {
	return s(ctx, o)
}

func (p *nodePod) attach(ctx context.Context, o remotecommand.StreamOptions) error {
	var w wiring
	if p.node.wire != nil {
		w = p.node.wire()
	}
	ended := make(chan error, 1)
	end := func(err error) {
		select {
		case ended <- err:
		default:
		}
	}
	through := func(to io.Writer, before func([]byte) error) io.Writer {
		return writerFunc(func(text []byte) (int, error) {
			if before != nil {
				switch err := before(text); {
				case errors.Is(err, errSwallowed):
					return len(text), nil
				case err != nil:
					end(err)
					return 0, err
				}
			}
			return to.Write(text)
		})
	}
	out := &outputOf{to: through(o.Stdout, w.out)}
	p.mu.Lock()
	over := p.over
	p.attached[out] = true
	p.mu.Unlock()
	if over {
		return errors.New("container not found")
	}
	go func() { _, _ = io.Copy(through(p.stdin, w.in), o.Stdin) }()
	go func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for !p.over && ctx.Err() == nil {
			p.changed.Wait()
		}
		end(nil)
	}()
	defer context.AfterFunc(ctx, p.changed.Broadcast)()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	delete(p.attached, out)
	p.mu.Unlock()
	if !w.torn {
		_ = p.stdin.Close()
	}
	return err
}
