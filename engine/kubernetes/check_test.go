package kubernetes

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
)

func role(t *testing.T) map[string]any { return documented(t, "Role") }

func documented(t *testing.T, kind string) map[string]any {
	t.Helper()
	page := must.Get(os.ReadFile("../../docs/kubernetes.md"))(t)
	for _, found := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal(found[1], &object))
		if object["kind"] == kind {
			return object
		}
	}
	t.Fatalf("docs/kubernetes.md has no %s", kind)
	return nil
}

func TestTheRoleOfTheDocumentationIsWhatIsChecked(t *testing.T) {
	var granted []string
	for _, rule := range role(t)["rules"].([]any) {
		rule := rule.(map[string]any)
		assert.Equal(t, []any{""}, rule["apiGroups"].([]any), "groups")
		for _, resource := range rule["resources"].([]any) {
			for _, verb := range rule["verbs"].([]any) {
				granted = append(granted, fmt.Sprint(verb, " ", resource))
			}
		}
	}
	var needed []string
	for _, right := range Rights() {
		needed = append(needed, right.String())
	}
	slices.Sort(granted)
	slices.Sort(needed)
	assert.True(t, slices.Equal(granted, needed), "the documentation grants %q, and %q are checked", granted, needed)
}

// answers is an API server that says what it is told to.
type answers struct {
	version   string
	denied    []string // rights
	namespace string   // status 403 or 404, or the namespace
	review    string   // what asking for a right answers instead
	pod       string   // what creating a Pod answers; "" takes it

	tried int // Pods
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := func(code int, reason, message, kind string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d, "reason": %q, "message": %q, "details": {"kind": %q}}`, code, reason, message, kind)
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/version":
		fmt.Fprint(w, a.version)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		var asked struct {
			Spec struct {
				ResourceAttributes struct{ Namespace, Verb, Resource, Subresource string }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		about := asked.Spec.ResourceAttributes
		resource := strings.TrimSuffix(about.Resource+"/"+about.Subresource, "/")
		if a.review != "" {
			fmt.Fprint(w, a.review)
			return
		}
		allowed := about.Namespace == "apps" && !slices.Contains(a.denied, about.Verb+" "+resource)
		fmt.Fprintf(w, `{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": {"allowed": %t}}`, allowed)
	case r.URL.Path == "/api/v1/namespaces/apps" && a.namespace == "403":
		status(403, "Forbidden", `namespaces "apps" is forbidden: cannot get resource "namespaces"`, "namespaces")
	case r.URL.Path == "/api/v1/namespaces/apps" && a.namespace == "404":
		status(404, "NotFound", `namespaces "apps" not found`, "namespaces")
	case r.URL.Path == "/api/v1/namespaces/apps":
		fmt.Fprint(w, a.namespace)
	case r.URL.Path == "/api/v1/namespaces/apps/pods" && r.Method == http.MethodPost && r.URL.Query().Get("dryRun") == "All":
		a.tried++
		switch a.pod {
		case "":
			fmt.Fprint(w, `{"kind": "Pod", "apiVersion": "v1"}`)
		case "no namespace":
			status(404, "NotFound", `namespaces "apps" not found`, "namespaces")
		default:
			status(403, "Forbidden", a.pod, "pods")
		}
	default:
		status(500, "InternalError", "nobody asks for "+r.Method+" "+r.URL.String(), "")
	}
}

func (a *answers) engine(t *testing.T) *Engine {
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": %q}}],
		"users": [{"name": "u", "user": {"token": "x"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "apps"}}]}`, server.URL)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	e := must.Get(Open(t.Context(), Options{Kubeconfig: file, Repository: "registry.example/deployster", Logger: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func TestACheckSaysAllThatIsMissing(t *testing.T) {
	labelled := `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "apps", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`
	plain := `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "apps"}}`
	none := "there is no namespace apps: make it with `kubectl create namespace apps`"
	for name, c := range map[string]struct {
		server      answers
		answer, err string
		tried       int
	}{
		"a namespace with a level":    {answers{namespace: labelled}, "namespace apps, which enforces pod security restricted", "", 1},
		"a namespace without a level": {answers{namespace: plain}, "namespace apps, which enforces no pod security", "", 1},
		"a namespace that may not be looked at": {
			answers{namespace: "403"}, "namespace apps; its pod security is not known, as get on it is not granted", "", 1,
		},
		"a namespace that is not there":                   {answers{namespace: "404"}, "", none, 0},
		"one that is not there, and may not be looked at": {answers{namespace: "403", pod: "no namespace"}, "", none, 1},
		"a right": {answers{namespace: plain, denied: []string{"get pods/attach"}}, "",
			"these rights are missing in namespace apps: get pods/attach (docs/kubernetes.md has a Role with all that is needed)", 1},
		"rights, without which no Pod is asked for": {
			answers{namespace: plain, denied: []string{"create pods", "watch pods"}}, "",
			"these rights are missing in namespace apps: create pods, watch pods (docs/kubernetes.md has a Role with all that is needed)", 0,
		},
		"rights and the namespace": {answers{namespace: "404", denied: []string{"delete pods"}}, "",
			"these rights are missing in namespace apps: delete pods (docs/kubernetes.md has a Role with all that is needed); " + none, 0},
		"Pods that are refused": {answers{namespace: plain, pod: "pods \"deployster-x\" is forbidden: no"}, "",
			"a Pod is refused: pods \"deployster-x\" is forbidden: no", 1},
		"a quota that wants to know more": {
			answers{namespace: plain, pod: "pods \"deployster-x\" is forbidden: failed quota: q: must specify requests.cpu for: main,prepare"}, "",
			"must specify requests.cpu for: main,prepare; make a LimitRange in namespace apps, with which its quota counts what containers do not say: docs/kubernetes.md has one; for memory alone --memory is enough", 1,
		},
		"a quota that is used up": {
			answers{namespace: plain, pod: "pods \"deployster-x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9"}, "",
			"limited: pods=9; wait until other Pods there have ended, name less --memory where that is exceeded, or have the quota raised: `kubectl describe quota --namespace apps` shows what is used", 1,
		},
		"an answer that is none": {answers{namespace: plain, review: "<html>"}, "", "ask whether create pods is granted: what answers is no API server", 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := c.server
			server.version = `{"gitVersion": "v1.2.3"}`
			found, err := server.engine(t).Check(t.Context())
			if err == nil {
				err = found.Err()
			}
			switch {
			case found.Version != "v1.2.3", found.Namespace != "apps", server.tried != c.tried:
				t.Errorf("%+v after %d Pods", found, server.tried)
			case c.err == "" && (err != nil || found.Answer() != c.answer):
				t.Errorf("%q, %v; want %q", found.Answer(), err, c.answer)
			case c.err != "" && (err == nil || !strings.HasSuffix(err.Error(), c.err) && !strings.Contains(err.Error(), "no API server")):
				t.Errorf("%v, want %s", err, c.err)
			}
		})
	}
}

// What a cluster says is for programs, too.
func TestACheckIsADocument(t *testing.T) {
	encoded, err := json.Marshal(Checked{Version: "v1", Namespace: "apps", PodSecurity: "baseline", Missing: Rights()[:2]})
	want := `{"version":"v1","namespace":"apps","pod_security":"baseline","missing_rights":["create pods","get pods"]}`
	assert.True(t, err == nil && string(encoded) == want, "%s, %v", encoded, err)
}

func TestOnlyPodsThatEndedLongAgoAreNobodys(t *testing.T) {
	now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now.Add(-ago)) }
	finished := func(ago time.Duration) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: mainContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(ago)}}}}
	}
	for name, c := range map[string]struct {
		created time.Duration
		status  corev1.PodStatus
		want    bool
	}{
		"it runs, for a week":                 {created: 7 * 24 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodRunning}},
		"it waits, for a week":                {created: 7 * 24 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodPending}},
		"it ended just now, after a week":     {created: 7 * 24 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: finished(time.Minute)}},
		"it ended two days ago":               {created: 3 * 24 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: finished(48 * time.Hour)}, want: true},
		"it failed two days ago":              {created: 3 * 24 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: finished(48 * time.Hour)}, want: true},
		"it never began, and was evicted":     {created: 48 * time.Hour, status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, want: true},
		"it never began, and was evicted now": {created: time.Hour, status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}},
		"a clock of another machine is ahead": {created: -time.Hour, status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: finished(-time.Hour)}},
	} {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(c.created)}, Status: c.status}
		assert.Equal(t, c.want, longOver(&pod, now), name)
	}
}

// A namespace has Pods of others, which may say of themselves that deployster manages them.
func TestOnlyPodsOfRunsAreRemoved(t *testing.T) {
	own := map[string]string{labelsAnnotation: encodeLabels(map[string]string{"deployster.run": "x"})}
	var list corev1.PodList
	list.TypeMeta = metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}
	for name, meta := range map[string]metav1.ObjectMeta{
		"of-a-run":           {Annotations: own},
		"of-a-run-as-well":   {Annotations: map[string]string{labelsAnnotation: encodeLabels(nil)}},
		"of-a-job":           {OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "backup"}}},
		"of-a-job-that-lies": {Annotations: own, OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "backup"}}},
		"of-nobody":          {},
		"of-whoever-knows":   {Annotations: map[string]string{labelsAnnotation: "everything"}},
	} {
		pod := aPod(corev1.PodStatus{Phase: corev1.PodSucceeded})
		meta.Name, meta.Labels = name, map[string]string{managedBy: "deployster"}
		pod.ObjectMeta = meta
		list.Items = append(list.Items, *pod)
	}
	var removed []string
	e := onServer(t, func(request string) (int, any) {
		name, removes := strings.CutPrefix(request, "DELETE ")
		if !removes {
			return http.StatusOK, list
		}
		removed = append(removed, name)
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound) // another run was quicker
	})
	err := e.sweep(t.Context(), time.Now())
	if slices.Sort(removed); err != nil || !slices.Equal(removed, []string{"of-a-run", "of-a-run-as-well"}) {
		t.Errorf("it removed %q, %v", removed, err)
	}
}

// Whoever watches over a Pod may die.
func TestNoPodRunsForEver(t *testing.T) {
	for timeout, want := range map[time.Duration]int64{0: 3600, 90 * time.Second: 690, 48 * time.Hour: 48*3600 + 600} {
		p := must.Get(newPlan(engine.Spec{Timeout: timeout, Args: []string{"x"}}, resolved{pinned: "r/x"}, "r/shim", time.Minute, time.Hour))(t)
		pod, err := p.pod(Options{PodSecurity: Restricted})
		assert.True(t, err == nil && pod.Spec.ActiveDeadlineSeconds != nil &&
			*pod.Spec.ActiveDeadlineSeconds == want, "with a time limit of %s: %v, %v", timeout, pod, err)
	}
}

func TestWhoEndsAPodIsNamed(t *testing.T) {
	now := metav1.Now()
	evicted := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "evicting"}}}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want string
	}{
		"nobody":            {pod: corev1.Pod{}},
		"nobody yet":        {pod: corev1.Pod{Status: evicted}},
		"somebody":          {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, "removed by somebody else"},
		"who drains a node": {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}, Status: evicted}, "the cluster evicted the Pod: EvictionByEvictionAPI: evicting"},
	} {
		err := intervened(&c.pod)
		assert.False(t, (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want), "%s: %v", name, err)
	}
}
