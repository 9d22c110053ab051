// Package kubeapi is the little of a cluster's API that objects of any kind need: which kinds
// there are, and to get, apply and delete an object. Objects are what JSON makes of them, with
// numbers as they are written.
package kubeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// maxAnswer bounds what the server may answer. Objects have 1.5 MiB at most, in etcd.
const maxAnswer = 32 << 20

// Client asks the API server of one cluster. It is for one goroutine at a time.
type Client struct {
	Server    string // its address
	Namespace string // of objects that name none

	rest  *rest.RESTClient
	kinds map[string][]metav1.APIResource // by apiVersion, as far as they were asked for
}

// quiet keeps the client's own lines from coming between what is said to people.
var quiet = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// Open reads a kubeconfig; it asks nothing yet. context "" is the current one. Warnings are those
// of the server, as that a version is deprecated.
func Open(kubeconfig []byte, context string, warn func(format string, args ...any)) (*Client, error) {
	quiet()
	config, namespace, err := configuration(kubeconfig, context)
	if err != nil {
		return nil, err
	}
	config.WarningHandler = warnings(warn)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	return New(config, namespace)
}

// New is a client with a configuration.
func New(config *rest.Config, namespace string) (*Client, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // what errors are made of
	config.APIPath, config.GroupVersion = "/", &schema.GroupVersion{}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used for %s: %w", config.Host, err)
	}
	return &Client{Server: config.Host, Namespace: namespace, rest: client, kinds: map[string][]metav1.APIResource{}}, nil
}

// Resource is what the server calls a kind of objects.
type Resource struct {
	APIVersion string
	Name       string // the plural in its addresses
	Namespaced bool
}

// ErrNoKind says that the server does not know a kind.
var ErrNoKind = errors.New("the cluster does not know it")

// Resource finds a kind.
func (c *Client) Resource(ctx context.Context, apiVersion, kind string) (Resource, error) {
	known, asked := c.kinds[apiVersion]
	if !asked {
		var list metav1.APIResourceList
		err := c.read(ctx, apiPath(apiVersion), &list)
		if err != nil && !apierrors.IsNotFound(err) {
			return Resource{}, c.explain(fmt.Sprintf("find out which kinds %s has", apiVersion), err)
		}
		if known = list.APIResources; err == nil { // what is not there may be soon
			c.kinds[apiVersion] = known
		}
	}
	for _, r := range known {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			return Resource{APIVersion: apiVersion, Name: r.Name, Namespaced: r.Namespaced}, nil
		}
	}
	delete(c.kinds, apiVersion)
	if apiVersion == everyVersion && kind == everyKind {
		return Resource{}, c.explain("find out which kinds there are", errNoServer)
	}
	if _, err := c.Resource(ctx, everyVersion, everyKind); err != nil {
		return Resource{}, err
	}
	return Resource{}, fmt.Errorf("kind %s of %s: %w", kind, apiVersion, ErrNoKind)
}

// A kind that every cluster has. Who does not know it is no API server, and is not believed that
// it does not know others.
const everyVersion, everyKind = "v1", "Namespace"

var errNoServer = errors.New("what answers is no API server: check the address in the kubeconfig")

// AnyVersion finds a kind in whichever version the server has of its group by now: objects outlive
// the versions in which they were written.
func (c *Client) AnyVersion(ctx context.Context, apiVersion, kind string) (Resource, error) {
	found, err := c.Resource(ctx, apiVersion, kind)
	name, _, named := strings.Cut(apiVersion, "/")
	if !errors.Is(err, ErrNoKind) || !named {
		return found, err
	}
	var group metav1.APIGroup
	switch asked := c.read(ctx, "/apis/"+name, &group); {
	case apierrors.IsNotFound(asked):
		return found, err
	case asked != nil:
		return found, c.explain(fmt.Sprintf("find out which versions %s has", name), asked)
	}
	for _, version := range append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...) {
		if version.GroupVersion == "" || version.GroupVersion == apiVersion {
			continue
		}
		if found, other := c.Resource(ctx, version.GroupVersion, kind); !errors.Is(other, ErrNoKind) {
			return found, other
		}
	}
	return found, err
}

// Get reads an object; nil is that there is none.
func (c *Client) Get(ctx context.Context, r Resource, namespace, name string) (map[string]any, error) {
	var object map[string]any
	err := c.read(ctx, r.path(namespace, name), &object)
	if IsNotFound(err) {
		return nil, nil
	}
	if apierrors.IsNotFound(err) { // another server than one with the kind, or one that does not serve it yet
		if _, unknown := c.Resource(ctx, everyVersion, everyKind); unknown != nil {
			return nil, unknown
		}
	}
	if err != nil {
		return nil, c.explain(fmt.Sprintf("get %s", r.describe(namespace, name)), err)
	}
	return object, nil
}

// ApplyOptions say how an object is applied.
type ApplyOptions struct {
	Manager string // of the fields
	Force   bool   // take fields from other managers
	DryRun  bool
}

// Apply applies an object on the server's side, and returns what it is then.
func (c *Client) Apply(ctx context.Context, r Resource, object map[string]any, o ApplyOptions) (map[string]any, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	namespace, name := Text(object, "metadata", "namespace"), Text(object, "metadata", "name")
	request := c.rest.Verb(http.MethodPatch).AbsPath(r.path(namespace, name)).Body(body).
		SetHeader("Content-Type", string(types.ApplyPatchType)).
		Param("fieldManager", o.Manager).Param("fieldValidation", "Strict").Param("force", fmt.Sprint(o.Force))
	if o.DryRun {
		request.Param("dryRun", "All")
	}
	var applied map[string]any
	if err := answer(request.Do(ctx), &applied); err != nil {
		return nil, c.explain(fmt.Sprintf("apply %s", r.describe(namespace, name)), err)
	}
	return applied, nil
}

// SetManagers replaces metadata.managedFields of an object that is still of this version. What the
// object is stays as it is. Where it is of another version by now that is an error, see IsConflict.
func (c *Client) SetManagers(ctx context.Context, r Resource, namespace, name, resourceVersion string, entries []any) error {
	body, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": resourceVersion},
	})
	if err != nil {
		return err
	}
	err = c.rest.Verb(http.MethodPatch).AbsPath(r.path(namespace, name)).Body(body).SetHeader("Content-Type", string(types.JSONPatchType)).Do(ctx).Error()
	if err != nil {
		return c.explain(fmt.Sprintf("let go of %s", r.describe(namespace, name)), err)
	}
	return nil
}

// Makeable reports by an error what is wrong with an object that is to be made anew, where there
// is one of its name. Nothing is made.
func (c *Client) Makeable(ctx context.Context, r Resource, object map[string]any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	namespace, name := Text(object, "metadata", "namespace"), Text(object, "metadata", "name")
	err = c.rest.Post().AbsPath(r.list(namespace)).Body(body).SetHeader("Content-Type", "application/json").
		Param("fieldValidation", "Strict").Param("dryRun", "All").Do(ctx).Error()
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return c.explain(fmt.Sprintf("make %s anew", r.describe(namespace, name)), err)
}

// Delete has an object deleted once nothing depends on it any more, if it is still the one with
// this uid. That there is none is no error.
func (c *Client) Delete(ctx context.Context, r Resource, namespace, name, uid string) error {
	foreground, same := metav1.DeletePropagationForeground, types.UID(uid)
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &same},
	})
	if err != nil {
		return err
	}
	result := c.rest.Delete().AbsPath(r.path(namespace, name)).Body(body).SetHeader("Content-Type", "application/json").Do(ctx)
	err = result.Error()
	if err == nil || IsNotFound(err) || apierrors.IsConflict(err) { // another one has its name
		return nil
	}
	return c.explain(fmt.Sprintf("delete %s", r.describe(namespace, name)), err)
}

func (c *Client) read(ctx context.Context, path string, into any) error {
	return answer(c.rest.Get().AbsPath(path).Do(ctx), into)
}

// answer reads what the server answered.
func answer(result rest.Result, into any) error {
	if err := result.Error(); err != nil {
		return err
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("what answers is no API server: %w", err)
	}
	return nil
}

func apiPath(apiVersion string) string {
	if !strings.Contains(apiVersion, "/") {
		return "/api/" + apiVersion
	}
	return "/apis/" + apiVersion
}

// list is the path of all objects, of a namespace where they are in one.
func (r Resource) list(namespace string) string {
	path := apiPath(r.APIVersion)
	if r.Namespaced {
		path += "/namespaces/" + namespace
	}
	return path + "/" + r.Name
}

func (r Resource) path(namespace, name string) string { return r.list(namespace) + "/" + name }

func (r Resource) describe(namespace, name string) string {
	what := r.Name
	if group, _, ok := strings.Cut(r.APIVersion, "/"); ok {
		what += "." + group
	}
	if r.Namespaced {
		return fmt.Sprintf("%s %s/%s", what, namespace, name)
	}
	return what + " " + name
}

// Text is a text within an object; "" where there is none.
func Text(object map[string]any, path ...string) string {
	text, _ := At(object, path...).(string)
	return text
}

// At is a value within an object; nil where there is none.
func At(object map[string]any, path ...string) any {
	var at any = object
	for _, key := range path {
		members, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = members[key]
	}
	return at
}

// warnings tells people what the server warns of.
type warnings func(format string, args ...any)

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(code int, _ string, text string) {
	if code == 299 && text != "" && w != nil {
		w("the cluster warns: %s", text)
	}
}

// bounded is a way to a server whose answers are cut where they are too long.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = &limited{ReadCloser: response.Body, left: maxAnswer}
	}
	return response, err
}

type limited struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d MiB", maxAnswer>>20)
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
