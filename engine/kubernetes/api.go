package kubernetes

import (
	"context"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/httpstream"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// api is what is asked of the API server, in one namespace. It knows the core objects
// only: the client with all of them takes ten times as long to be ready.
type api struct {
	namespace  string
	config     *rest.Config
	http       *http.Client
	client     *rest.RESTClient
	parameters runtime.ParameterCodec
}

func newAPI(config *rest.Config, namespace string) (*api, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	a := &api{namespace: namespace, config: config, http: client, parameters: runtime.NewParameterCodec(scheme)}
	a.client, err = rest.RESTClientForConfigAndClient(config, client)
	return a, err
}

// close closes the connections that nobody uses. Those of the transport are within what adds credentials.
func (a *api) close() { utilnet.CloseIdleConnectionsFor(a.http.Transport) }

func (a *api) version(ctx context.Context) (string, error) {
	var v version.Info
	text, err := a.client.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	if err := decodeJSON(text, &v); err != nil {
		return "", err
	}
	return v.GitVersion, nil
}

func (a *api) askNamespace(ctx context.Context) (*corev1.Namespace, error) {
	var namespace corev1.Namespace
	err := a.client.Get().Resource("namespaces").Name(a.namespace).Do(ctx).Into(&namespace)
	return &namespace, err
}

func (a *api) create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	var created corev1.Pod
	err := a.client.Post().Namespace(a.namespace).Resource("pods").Body(pod).Do(ctx).Into(&created)
	return &created, err
}

func (a *api) get(ctx context.Context, pod string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var found corev1.Pod
	err := a.client.Get().Namespace(a.namespace).Resource("pods").Name(pod).Do(ctx).Into(&found)
	return &found, err
}

func (a *api) list(ctx context.Context, selector string) ([]corev1.Pod, error) {
	var all []corev1.Pod
	options := metav1.ListOptions{LabelSelector: selector, Limit: 500}
	for {
		var page corev1.PodList
		err := a.client.Get().Namespace(a.namespace).Resource("pods").VersionedParams(&options, a.parameters).Do(ctx).Into(&page)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

func (a *api) watch(ctx context.Context, pod, version string) (watch.Interface, error) {
	options := metav1.ListOptions{
		Watch: true, ResourceVersion: version, FieldSelector: fields.OneTermEqualSelector("metadata.name", pod).String(),
	}
	return a.client.Get().Namespace(a.namespace).Resource("pods").VersionedParams(&options, a.parameters).Watch(ctx)
}

func (a *api) delete(ctx context.Context, pod string, grace int64) error {
	return a.client.Delete().Namespace(a.namespace).Resource("pods").Name(pod).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &grace}).Do(ctx).Error()
}

// log returns what a container has written, and with follow what it writes until its end.
func (a *api) log(ctx context.Context, pod, container string, follow bool) (io.ReadCloser, error) {
	options := corev1.PodLogOptions{Container: container, Follow: follow}
	return a.client.Get().Namespace(a.namespace).Resource("pods").Name(pod).SubResource("log").VersionedParams(&options, a.parameters).Stream(ctx)
}

// attach returns what attaches to the streams of a container, by whichever of the protocols
// the API server and what is between can do.
func (a *api) attach(pod, container string) (remotecommand.Executor, error) {
	options := corev1.PodAttachOptions{Container: container, Stdin: true, Stdout: true, Stderr: true}
	url := a.client.Post().Namespace(a.namespace).Resource("pods").Name(pod).SubResource("attach").VersionedParams(&options, a.parameters).URL()
	websocket, err := remotecommand.NewWebSocketExecutor(a.config, http.MethodGet, url.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(a.config, http.MethodPost, url)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
