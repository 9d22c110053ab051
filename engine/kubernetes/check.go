package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/deployster-go/deployster/engine"
)

// Right is a verb on a resource of a namespace.
type Right struct{ Verb, Resource string }

// String names it as an order for kubectl auth can-i.
func (r Right) String() string { return r.Verb + " " + r.Resource }

// MarshalText implements encoding.TextMarshaler.
func (r Right) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Rights are all that an engine needs in its namespace.
func Rights() []Right {
	return []Right{
		{"create", "pods"}, {"get", "pods"}, {"list", "pods"}, {"watch", "pods"}, {"delete", "pods"},
		{"create", "pods/attach"}, {"get", "pods/attach"}, {"get", "pods/log"},
	}
}

// Checked is what a cluster says of itself, and of what an engine needs there.
type Checked struct {
	Version     string  `json:"version"` // of the API server
	Namespace   string  `json:"namespace"`
	PodSecurity string  `json:"pod_security,omitempty"` // level that the namespace enforces; "" is none, or not known
	Missing     []Right `json:"missing_rights,omitempty"`

	levelKnown bool
	problems   []string
}

// Answer says what is there.
func (c Checked) Answer() string {
	switch {
	case c.PodSecurity != "":
		return fmt.Sprintf("namespace %s, which enforces pod security %s", c.Namespace, c.PodSecurity)
	case c.levelKnown:
		return fmt.Sprintf("namespace %s, which enforces no pod security", c.Namespace)
	}
	return fmt.Sprintf("namespace %s; its pod security is not known, as get on it is not granted", c.Namespace)
}

// Err says everything that keeps the engine from running Pods; nil is nothing.
func (c Checked) Err() error {
	problems := c.problems
	if len(c.Missing) > 0 {
		var missing []string
		for _, right := range c.Missing {
			missing = append(missing, right.String())
		}
		problems = append([]string{fmt.Sprintf("these rights are missing in namespace %s: %s (docs/kubernetes.md has a Role with all that is needed)", c.Namespace, strings.Join(missing, ", "))}, problems...)
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

// enforce is the label of a namespace with the level to which its Pods must keep.
const enforce = "pod-security.kubernetes.io/enforce"

// Check asks the cluster for all that keeps the engine from running Pods. That Pods would be
// admitted it finds out by asking for one that is not made.
func (e *Engine) Check(ctx context.Context) (Checked, error) {
	version, err := e.api.version(ctx)
	if err != nil {
		return Checked{}, e.wrap("ask for its version", err)
	}
	found := Checked{Version: version, Namespace: e.options.Namespace}
	creates := true
	for _, right := range Rights() {
		granted, err := e.api.may(ctx, right)
		if err != nil {
			return found, e.wrap("ask whether "+right.String()+" is granted", err)
		}
		if !granted {
			found.Missing = append(found.Missing, right)
			creates = creates && right != Rights()[0]
		}
	}
	namespace, err := e.api.askNamespace(ctx)
	switch {
	case err == nil:
		found.levelKnown, found.PodSecurity = true, namespace.Labels[enforce]
	case apierrors.IsNotFound(err):
		found.problems = append(found.problems, e.noNamespace())
		return found, nil
	case !apierrors.IsForbidden(err):
		return found, e.wrap("ask for namespace "+found.Namespace, err)
	}
	if creates {
		return found, e.try(ctx, &found)
	}
	return found, nil
}

func (c *Cluster) noNamespace() string {
	return fmt.Sprintf("there is no namespace %[1]s: make it with `kubectl create namespace %[1]s`", c.options.Namespace)
}

// try asks for a Pod as those of runs are, without making it.
func (e *Engine) try(ctx context.Context, found *Checked) error {
	digest := e.repository.Digest("sha256:" + strings.Repeat("0", 64)).Name()
	image := resolved{pinned: digest, config: v1.Config{Entrypoint: []string{shimPath}}}
	p, err := newPlan(engine.Spec{}, image, digest, e.idle, e.life)
	if err != nil {
		return err
	}
	pod, err := p.pod(e.options)
	if err != nil {
		return err
	}
	err = e.api.tryCreate(ctx, pod)
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces":
		found.problems = append(found.problems, e.noNamespace())
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		found.problems = append(found.problems, fmt.Sprintf("a Pod is refused: %s%s", err, e.quota(err)))
	default:
		return e.wrap("ask for a Pod that is not made", err)
	}
	return nil
}

// may asks whether a right is granted to whoever asks.
func (a *api) may(ctx context.Context, right Right) (bool, error) {
	resource, sub, _ := strings.Cut(right.Resource, "/")
	body, err := json.Marshal(map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"namespace": a.namespace, "verb": right.Verb, "version": "v1", "resource": resource, "subresource": sub,
		}},
	})
	if err != nil {
		return false, err
	}
	text, err := a.client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return false, err
	}
	var answer struct {
		Status struct{ Allowed bool }
	}
	if err := decodeJSON(text, &answer); err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

func (a *api) tryCreate(ctx context.Context, pod *corev1.Pod) error {
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	return a.client.Post().Namespace(a.namespace).Resource("pods").VersionedParams(&options, a.parameters).Body(pod).Do(ctx).Error()
}
