package kubernetes

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
)

func podOf(t *testing.T, spec engine.Spec, image v1.Config, o Options) (*corev1.Pod, error) {
	p, err := newPlan(spec, resolved{pinned: "registry.example/x@sha256:1", config: image}, "registry.example/shim@sha256:2", time.Minute, time.Hour)
	if err != nil {
		return nil, err
	}
	return p.pod(o)
}

func TestWhoAProgramIs(t *testing.T) {
	for name, c := range map[string]struct {
		level       PodSecurity
		image, spec string
		uid, gid    int64  // -1 is the image's
		becomes     string // in the shim
		refused     string
	}{
		"an image that does not say, restricted":  {level: Restricted, uid: 65532, gid: 65532},
		"an image with a number":                  {level: Restricted, image: "1000", uid: 1000, gid: -1},
		"an image with a number and a group":      {level: Restricted, image: "1000:2000", uid: 1000, gid: 2000},
		"a spec goes before the image":            {level: Restricted, image: "0", spec: "1000", uid: 1000, gid: -1},
		"an image that wants root":                {level: Restricted, image: "root", refused: "--pod-security baseline"},
		"an image that wants root by its number":  {level: Restricted, image: "0:5", refused: "--pod-security baseline"},
		"an image with a name":                    {level: Restricted, image: "app", refused: "USER 1000"},
		"an image with the name of a group":       {level: Restricted, image: "1000:app", refused: "group's number"},
		"an image that does not say, at baseline": {level: Baseline, uid: 0, gid: 0},
		"a name, at baseline":                     {level: Baseline, image: "app:audio", uid: 0, gid: 0, becomes: "app:audio"},
	} {
		security, becomes, err := identity(c.level, c.spec, v1.Config{User: c.image})
		if c.refused != "" {
			assert.True(t, err != nil && strings.Contains(err.Error(), c.refused), "%s: %v, want %q", name, err, c.refused)
			continue
		}
		if err != nil || becomes != c.becomes || *security.RunAsUser != c.uid || *security.AllowPrivilegeEscalation {
			t.Errorf("%s: %+v, %q, %v", name, security, becomes, err)
			continue
		}
		if got := security.RunAsGroup; c.gid == -1 && got != nil || c.gid != -1 && (got == nil || *got != c.gid) {
			t.Errorf("%s: group %v, want %d", name, got, c.gid)
		}
		root := c.level == Baseline
		assert.True(t, root != (len(security.Capabilities.Add) == 0) && root != (security.RunAsNonRoot != nil), "%s: %+v", name, security)
	}
}

func TestWhatAClusterCannotDoIsRefused(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, engine.StateDir, "objects")
	require.NoError(t, os.MkdirAll(kept, 0o700))
	for name, c := range map[string]struct {
		spec engine.Spec
		says string
	}{
		"a directory to write to":    {engine.Spec{Mounts: []engine.Mount{{Source: dir, Target: "/x"}}}, Claim + "NAME"},
		"the network of the machine": {engine.Spec{Network: "host"}, "NetworkPolicy"},
		"a bound of processes":       {engine.Spec{Pids: 10}, "podPidsLimit"},
		"what no type may see":       {engine.Spec{Mounts: []engine.Mount{{Source: kept, Target: "/x", ReadOnly: true}}}, engine.StateDir},
		"what is missing":            {engine.Spec{Mounts: []engine.Mount{{Source: dir + "/none", Target: "/x", ReadOnly: true}}}, dir + "/none"},
		"a long argument":            {engine.Spec{Args: []string{strings.Repeat("x", 1<<17)}}, "too long"},
		"no program":                 {engine.Spec{}, "no entrypoint"},
	} {
		_, err := podOf(t, c.spec, v1.Config{}, Options{PodSecurity: Restricted})
		if err == nil || !strings.Contains(err.Error(), c.says) || !errors.As(err, new(*engine.SpecError)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestAPodIsWhatASpecSays(t *testing.T) {
	dir := t.TempDir()
	spec := engine.Spec{
		Args: []string{"$(HOME)", "$$"}, Env: []string{"A=$(B)=c"}, WorkDir: "/w", Work: "/copy/work", Memory: 1 << 20, Timeout: 90 * time.Second,
		Mounts: []engine.Mount{
			{Source: dir, Target: "/copy", ReadOnly: true}, {Source: Claim + "data/below/it", Target: "/copy/data"}, {Source: Claim + "data", Target: "/all", ReadOnly: true},
		},
		Labels: map[string]string{"deployster.run": "01X", "two words": "db@host1"},
	}
	pod, err := podOf(t, spec, v1.Config{Entrypoint: []string{"/entry"}, Cmd: []string{"dropped"}}, Options{PodSecurity: Restricted, PullSecrets: []string{"login"}})
	require.NoError(t, err)
	main := pod.Spec.Containers[0]
	assert.True(t, slices.Equal(main.Args, []string{"/entry", "$$(HOME)", "$$$$"}) && main.Env[0].Value == "$$(B)=c" &&
		main.WorkingDir == "/w", "the program is %+v", main)
	got := *pod.Spec.ActiveDeadlineSeconds
	assert.True(t, got == 90+600 && main.Resources.Limits.Memory().Value() == 1<<20, "deadline %d, limits %v", got, main.Resources.Limits)
	if *pod.Spec.AutomountServiceAccountToken || pod.Spec.ImagePullSecrets[0].Name != "login" || len(pod.Spec.Volumes) != 4 {
		t.Errorf("%+v", pod.Spec)
	}
	var seen []string
	for _, m := range main.VolumeMounts[:4] {
		access := "rw"
		if m.ReadOnly {
			access = "ro"
		}
		seen = append(seen, m.MountPath+" "+m.SubPath+" "+access)
	}
	assert.Equal(t, []string{"/copy 0 ro", "/copy/work  rw", "/copy/data below/it rw", "/all  ro"}, seen, "mounts")
	work := pod.Spec.Volumes[2].EmptyDir
	assert.True(t, work != nil && work.SizeLimit.Value() == mostWork, "the work directory is %+v", pod.Spec.Volumes[2])
	assert.True(t, carries(labelsOf(pod), spec.Labels) && pod.Labels["deployster.run"] == "01X" &&
		len(pod.Labels) == 3, "labels %v, annotations %v", pod.Labels, pod.Annotations)
}

// What a node does to a volume for a Pod it does to the files of all others that use it.
func TestANodeChangesOnlyVolumesThatAreWrittenTo(t *testing.T) {
	dir := t.TempDir()
	reads := engine.Mount{Source: Claim + "data/below", Target: "/read", ReadOnly: true}
	for name, c := range map[string]struct {
		level  PodSecurity
		user   string
		mounts []engine.Mount
		group  int64           // of the volumes; 0 is none
		claims map[string]bool // whether they are only read
	}{
		"no claim":         {level: Restricted, mounts: []engine.Mount{{Source: dir, Target: "/copy", ReadOnly: true}}},
		"a claim to read":  {level: Restricted, mounts: []engine.Mount{reads}, claims: map[string]bool{"data": true}},
		"a claim to write": {level: Restricted, mounts: []engine.Mount{{Source: Claim + "data", Target: "/w"}}, group: unprivileged, claims: map[string]bool{"data": false}},
		"a claim for both": {level: Restricted, user: "1000", mounts: []engine.Mount{reads, {Source: Claim + "data", Target: "/w"}}, group: 1000, claims: map[string]bool{"data": false}},
		"one to read, one to write": {
			level: Restricted, user: "1000:2000", mounts: []engine.Mount{reads, {Source: Claim + "database", Target: "/w"}},
			group: 2000, claims: map[string]bool{"data": true, "database": false},
		},
		"root writes": {level: Baseline, mounts: []engine.Mount{{Source: Claim + "data", Target: "/w"}}, claims: map[string]bool{"data": false}},
	} {
		pod, err := podOf(t, engine.Spec{Args: []string{"x"}, User: c.user, Work: "/work", Mounts: c.mounts}, v1.Config{}, Options{PodSecurity: c.level})
		succeed(t, err)
		claims := map[string]bool{}
		for _, volume := range pod.Spec.Volumes {
			if claim := volume.PersistentVolumeClaim; claim != nil {
				claims[claim.ClaimName] = claim.ReadOnly
			}
		}
		security := pod.Spec.SecurityContext
		if !maps.Equal(claims, c.claims) || (security.FSGroup == nil) != (c.group == 0) {
			t.Errorf("%s: claims %v, security %+v", name, claims, security)
			continue
		}
		if c.group != 0 && (*security.FSGroup != c.group || security.FSGroupChangePolicy == nil || *security.FSGroupChangePolicy != corev1.FSGroupChangeOnRootMismatch) {
			t.Errorf("%s: security %+v", name, security)
		}
	}
}

func TestAllContainersSayHowMuchMemoryTheyNeed(t *testing.T) {
	copied := []engine.Mount{{Source: t.TempDir(), Target: "/copy", ReadOnly: true}}
	for name, c := range map[string]struct {
		memory        int64
		mounts        []engine.Mount
		prepare, main int64
	}{
		"nothing is said":             {mounts: copied},
		"a Pod":                       {memory: 1 << 20, prepare: 1 << 20, main: 1 << 20},
		"one with copies, and theirs": {memory: 1 << 20, mounts: copied, prepare: 1<<20 + copiedMemory, main: 1 << 20},
	} {
		pod, err := podOf(t, engine.Spec{Args: []string{"x"}, Memory: c.memory, Mounts: c.mounts}, v1.Config{}, Options{PodSecurity: Restricted})
		succeed(t, err)
		for i, resources := range []corev1.ResourceRequirements{pod.Spec.InitContainers[0].Resources, pod.Spec.Containers[0].Resources} {
			want := []int64{c.prepare, c.main}[i]
			assert.True(t, resources.Limits.Memory().Value() == want && resources.Requests.Memory().Value() == want &&
				(want == 0) == (len(resources.Limits) == 0), "%s: container %d has %+v", name, i, resources)
		}
	}
}

func TestLabelsAreFoundWhateverTheyAre(t *testing.T) {
	has := map[string]string{"a": "1", "two words": "some more words", "": "", "deployster.resource": "db@host1", managedBy: "another"}
	for _, c := range []struct {
		wanted map[string]string
		found  bool
	}{
		{map[string]string{"a": ""}, true},
		{map[string]string{"a": "1", "two words": "some more words"}, true},
		{map[string]string{managedBy: "another"}, true},
		{map[string]string{managedBy: "deployster"}, false},
		{map[string]string{"deployster.resource": "db"}, false},
		{map[string]string{"b": ""}, false},
	} {
		assert.Equal(t, c.found, carries(has, c.wanted), "%v", c.wanted)
	}
	for key, value := range podLabels(has) {
		assert.True(t, len(key) <= 63+20 && len(value) <= 63 && !strings.ContainsAny(key+value, " @"), "label %q: %q", key, value)
	}
	for _, annotation := range []string{"", "null", "[1]", `{"a": 1}`} {
		altered := &corev1.Pod{}
		altered.Annotations = map[string]string{labelsAnnotation: annotation}
		assert.Empty(t, labelsOf(altered), "annotation %q is read as", annotation)
	}
}

func TestNothingTakesThePlaceOfTheClusterThatIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	whole := func(name string) string {
		return `{"apiVersion": "v1", "kind": "Config", "current-context": "first", "users": [{"name": "u", "user": {}}],
			"clusters": [{"name": "a", "cluster": {"server": "https://` + name + `-a"}}, {"name": "b", "cluster": {"server": "https://` + name + `-b"}}],
			"contexts": [{"name": "first", "context": {"cluster": "a", "user": "u", "namespace": "own"}}, {"name": "second", "context": {"cluster": "b", "user": "u"}}]}`
	}
	user, named, empty := file("user", whole("user")), file("named", whole("named")), file("empty", "")
	for name, c := range map[string]struct {
		options          Options
		user             string // the kubeconfig of the user
		server, in, fail string
	}{
		"the user's":                           {Options{}, user, "https://user-a", "own", ""},
		"the user's, another context":          {Options{Context: "second"}, user, "https://user-b", "default", ""},
		"a file that is named":                 {Options{Kubeconfig: named}, user, "https://named-a", "own", ""},
		"a context of it, and a namespace":     {Options{Kubeconfig: named, Context: "second", Namespace: "x"}, user, "https://named-b", "x", ""},
		"nothing":                              {Options{}, empty, "", "", "no cluster is configured"},
		"a context that is not there":          {Options{Context: "third"}, user, "", "", `context "third" does not exist`},
		"a context, and no file has any":       {Options{Context: "first"}, empty, "", "", `context "first" does not exist`},
		"a file that says nothing":             {Options{Kubeconfig: empty}, user, "", "", "the kubeconfig names no cluster"},
		"a file that is not there":             {Options{Kubeconfig: filepath.Join(dir, "none")}, user, "", "", "no such file"},
		"the own cluster, where there is none": {Options{InCluster: true}, user, "", "", "this runs in no Pod that knows its cluster"},
	} {
		t.Setenv("KUBECONFIG", c.user)
		t.Setenv("KUBERNETES_SERVICE_HOST", "")
		config, _, namespace, err := configuration(c.options)
		switch {
		case c.fail != "":
			assert.True(t, err != nil && strings.Contains(err.Error(), c.fail), "%s: %v, want %q", name, err, c.fail)
		case err != nil || config.Host != c.server || namespace != c.in:
			t.Errorf("%s: %+v in %q, %v", name, config, namespace, err)
		}
	}
	_, _, _, err := configuration(Options{InCluster: true})
	assert.ErrorIs(t, err, engine.ErrUnavailable, "an engine that is not there")
}

func TestPodsRunWhereTheyAreTold(t *testing.T) {
	var pod corev1.PodSpec
	err := place(&pod, Options{
		NodeSelector: map[string]string{"disk": "ssd", "node-role.kubernetes.io/worker": ""}, ServiceAccount: "deployer",
		Tolerations: []string{"dedicated=deploy:NoSchedule", "spot=", "example.com/maintenance:NoExecute", "any"},
	})
	want := corev1.PodSpec{
		NodeSelector: map[string]string{
			"kubernetes.io/os": "linux", "kubernetes.io/arch": runtime.GOARCH, "disk": "ssd", "node-role.kubernetes.io/worker": "",
		},
		Tolerations: []corev1.Toleration{
			{Key: "dedicated", Operator: "Equal", Value: "deploy", Effect: "NoSchedule"},
			{Key: "spot", Operator: "Equal"},
			{Key: "example.com/maintenance", Operator: "Exists", Effect: "NoExecute"},
			{Key: "any", Operator: "Exists"},
		},
		ServiceAccountName: "deployer", // which says itself whether its token is there
	}
	assert.True(t, err == nil && reflect.DeepEqual(pod, want), "got %+v, %v\nwant %+v", pod, err, want)
}

func TestAPodHasNoTokenUnlessAnAccountIsNamed(t *testing.T) {
	var pod corev1.PodSpec
	if err := place(&pod, Options{}); err != nil || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "" {
		t.Errorf("%+v, %v", pod, err)
	}
}

func TestPlacesThatNoClusterTakesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"nothing":              {},
		"its own platform":     {options: Options{NodeSelector: map[string]string{"kubernetes.io/os": "linux"}}},
		"another platform":     {Options{NodeSelector: map[string]string{"kubernetes.io/os": "windows"}}, "node selector \"kubernetes.io/os=windows\": Pods run on nodes of this program's own platform"},
		"a label that is none": {Options{NodeSelector: map[string]string{"a b": "c"}}, "node selector \"a b=c\": name part must consist of"},
		"no value of a label":  {Options{NodeSelector: map[string]string{"a": "b c"}}, "node selector \"a=b c\""},
		"an effect":            {Options{Tolerations: []string{"a:Never"}}, "toleration \"a:Never\": write KEY=VALUE:EFFECT, KEY:EFFECT or KEY: its effect must be"},
		"an empty effect":      {Options{Tolerations: []string{"a:"}}, "its effect must be"},
		"everything":           {Options{Tolerations: []string{"=a"}}, "name part must be non-empty"},
		"a value":              {Options{Tolerations: []string{"a=b c"}}, "toleration \"a=b c\""},
		"an account":           {Options{ServiceAccount: "A/b"}, "service account \"A/b\""},
		"several":              {Options{ServiceAccount: "A", Tolerations: []string{"a:Never"}}, "toleration \"a:Never\""},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkPlacement(c.options)
			assert.True(t, (err == nil) == (c.want == "") &&
				(err == nil || strings.Contains(err.Error(), c.want)), "%v, want %q", err, c.want)
		})
	}
}

// Of requests without an answer those are made again that may succeed then, and those may have done
// something that were sent.
func TestRequestsWithoutAnAnswer(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = connection.Close()
		}
	}
	serve := func(config *tls.Config) *httptest.Server {
		server := httptest.NewUnstartedServer(http.HandlerFunc(cut))
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		server.TLS = config
		server.StartTLS()
		t.Cleanup(server.Close)
		return server
	}
	secure, strict := serve(nil), serve(&tls.Config{ClientAuth: tls.RequireAnyClientCert})
	closed := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	require.NoError(t, closed.Close())
	trusting := rest.TLSClientConfig{Insecure: true}
	plugin := &clientcmdapi.ExecConfig{Command: "/no/such/plugin", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
	for name, tc := range map[string]struct {
		config             rest.Config
		passing, maybeDone bool
	}{
		"the connection was cut":                {rest.Config{Host: secure.URL, TLSClientConfig: trusting}, true, true},
		"nobody listens":                        {rest.Config{Host: "https://" + closed.Addr().String(), TLSClientConfig: trusting}, true, false},
		"its certificate is not trusted":        {rest.Config{Host: secure.URL}, false, false},
		"it wants a certificate":                {rest.Config{Host: strict.URL, TLSClientConfig: trusting}, false, false},
		"what credentials come from is missing": {rest.Config{Host: secure.URL, TLSClientConfig: trusting, ExecProvider: plugin}, true, false},
		"the proxy is away":                     {rest.Config{Host: secure.URL, TLSClientConfig: trusting, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: closed.Addr().String()})}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := must.Get(rest.HTTPClientFor(&tc.config))(t)
			answer, err := client.Post(tc.config.Host+"/api/v1/namespaces/shop/pods", "application/json", http.NoBody)
			if err == nil {
				_ = answer.Body.Close()
				t.Fatal("there is an answer")
			}
			if passing(err) != tc.passing || maybeDone(err) != tc.maybeDone {
				t.Errorf("%v: passes %t, want %t; was maybe done %t, want %t", err, passing(err), tc.passing, maybeDone(err), tc.maybeDone)
			}
		})
	}
}

func state(container string, s corev1.ContainerState) corev1.PodStatus {
	statuses := []corev1.ContainerStatus{{Name: container, Image: "registry.example/x@sha256:1", State: s}}
	if container == prepareContainer {
		return corev1.PodStatus{InitContainerStatuses: statuses}
	}
	return corev1.PodStatus{ContainerStatuses: statuses}
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "the message"}}
}

func ended(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: "the message"}}
}

func unscheduled(why string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why,
	}}}
}

func TestWhatTheStatusOfAPodMeans(t *testing.T) {
	for name, c := range map[string]struct {
		status corev1.PodStatus
		is     error  // what the error is
		says   string // "" is none: it goes on, or ended by itself
	}{
		"it is made":                       {status: corev1.PodStatus{}},
		"its image is pulled":              {status: state(mainContainer, waiting("ContainerCreating"))},
		"a pull failed and is tried again": {status: state(mainContainer, waiting("ErrImagePull"))},
		"a registry refuses it":            {state(mainContainer, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "x: not found"}}), engine.ErrNoImage, "not found"},
		"a node pauses between pulls":      {status: state(prepareContainer, waiting("ImagePullBackOff"))},
		"a registry is away":               {status: state(prepareContainer, waiting("RegistryUnavailable"))},
		"a node is busy":                   {status: state(mainContainer, waiting("CreateContainerError"))},
		"a signature is wrong":             {state(mainContainer, waiting("SignatureValidationFailed")), engine.ErrNoImage, "--image-pull-secret"},
		"a node has just been started": {status: state(mainContainer, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CreateContainerConfigError", Message: "services have not yet been read at least once, cannot construct envvars"}})},
		"a claim is missing":               {state(mainContainer, waiting("CreateContainerConfigError")), nil, "the message"},
		"no node has room":                 {status: unscheduled("0/1 nodes are available: 1 Insufficient memory.")},
		"it ended":                         {status: state(mainContainer, ended(7, "Error"))},
		"it was killed for lack of memory": {status: state(mainContainer, ended(137, "OOMKilled"))},
		"preparing failed":                 {state(prepareContainer, ended(125, "Error")), nil, "preparing the Pod ended with 125"},
		"the node lost it":                 {state(mainContainer, ended(137, "ContainerStatusUnknown")), nil, "does not know"},
		"it was evicted":                   {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}, nil, "Evicted: low on memory"},
		"its time is over":                 {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}, engine.ErrTimeout, "DeadlineExceeded"},
	} {
		err := failed(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps"}, Status: c.status})
		assert.True(t, (err != nil) == (c.says != "") && (err == nil || strings.Contains(err.Error(), c.says)) &&
			(c.is == nil || errors.Is(err, c.is)), "%s: %v, want %q", name, err, c.says)
	}
	exit := exitOf(state(mainContainer, ended(137, "OOMKilled")).ContainerStatuses[0].State.Terminated)
	assert.True(t, exit == (engine.Exit{Code: 137, OOMKilled: true}), "it exited with %+v", exit)
}

// What stands in the names of images and in addresses is no answer of a registry.
func TestWhichFailuresOfAPullAreFinal(t *testing.T) {
	const image = "registry.example:4030/denied/not-found@sha256:4014030000000000000000000000000000000000000000000000000000000404"
	const pull = `Back-off pulling image "` + image + `": ErrImagePull: rpc error: code = Unknown desc = failed to pull and unpack image "` + image + `": failed to resolve reference "` + image + `": `
	const copied = `initializing source docker://` + image + `: `
	for message, final := range map[string]bool{
		pull + image + ": not found": true,
		pull + "unexpected status from HEAD request to https://registry.example:4030/v2/x/manifests/sha256:1: 401 Unauthorized":                                        true,
		pull + "unexpected status from HEAD request to https://registry.example:4030/v2/x/manifests/sha256:1: 403 Forbidden":                                           true,
		pull + "failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://registry.example/token?a=b: 403 Forbidden":         true,
		pull + "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed":                  true,
		pull + "pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials":                           true,
		copied + "reading manifest sha256:403 in registry.example:4030/denied/not-found: manifest unknown":                                                             true,
		copied + "reading manifest sha256:403 in registry.example:4030/denied/not-found: name unknown: repository name not known to registry":                          true,
		copied + "reading manifest sha256:403 in registry.example:4030/denied/not-found: unauthorized: access to the requested resource is not authorized":             true,
		copied + "reading manifest sha256:403 in registry.example:4030/denied/not-found: errors:\ndenied: requested access to the resource is denied\nunauthorized: x": true,
		copied + "Requesting bearer token: invalid status code from registry 403 (Forbidden)":                                                                          true,
		pull: false,
		pull + "failed to do request: Head \"https://registry.example:4030/v2/denied/not-found/manifests/sha256:401403\": dial tcp 10.0.0.1:403: connect: connection refused":         false,
		pull + "unexpected status from HEAD request to https://registry.example:4030/v2/x/manifests/sha256:403: 503 Service Unavailable":                                              false,
		pull + "failed to do request: Head \"https://registry.example/\": dial tcp: lookup unauthorized.registry.example on 10.0.0.10:53: server misbehaving":                         false,
		pull + "failed to extract layer sha256:401: write /var/lib/containerd/403: no space left on device":                                                                           false,
		copied + "pinging container registry registry.example:4030: Get \"https://registry.example:4030/v2/\": context deadline exceeded":                                             false,
		pull + "unexpected status from HEAD request to https://registry.example:4030/v2/x/manifests/sha256:1: 429 Too Many Requests\ntoomanyrequests: pull rate limit: access denied": false,
		copied + "received unexpected HTTP status: 502 Bad Gateway":                                                                                                                   false,
	} {
		for _, reason := range []string{"ErrImagePull", "ImagePullBackOff"} {
			err := failed(&corev1.Pod{Status: state(mainContainer, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})})
			assert.False(t, (err != nil) != final || final && !errors.Is(err, engine.ErrNoImage), "%s: %s\n%v", reason, message, err)
		}
	}
}
