package kubernetes

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/deployster-go/deployster/engine"
)

// podOf is the Pod that a spec becomes.
func podOf(t *testing.T, spec engine.Spec, image v1.Config, o Options) (*corev1.Pod, error) {
	t.Helper()
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
		if root := c.level == Baseline; root == (len(security.Capabilities.Add) == 0) || root == (security.RunAsNonRoot != nil) {
			t.Errorf("%s: %+v", name, security)
		}
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
	if !slices.Equal(main.Args, []string{"/entry", "$$(HOME)", "$$$$"}) || main.Env[0].Value != "$$(B)=c" || main.WorkingDir != "/w" {
		t.Errorf("the program is %+v", main)
	}
	if got := *pod.Spec.ActiveDeadlineSeconds; got != 90+600 || main.Resources.Limits.Memory().Value() != 1<<20 {
		t.Errorf("deadline %d, limits %v", got, main.Resources.Limits)
	}
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
	if want := []string{"/copy 0 ro", "/copy/work  rw", "/copy/data below/it rw", "/all  ro"}; !slices.Equal(seen, want) {
		t.Errorf("mounts %q, want %q", seen, want)
	}
	if work := pod.Spec.Volumes[2].EmptyDir; work == nil || work.SizeLimit.Value() != mostWork {
		t.Errorf("the work directory is %+v", pod.Spec.Volumes[2])
	}
	if !carries(labelsOf(pod), spec.Labels) || pod.Labels["deployster.run"] != "01X" || len(pod.Labels) != 3 {
		t.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
	}
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

// A quota refuses a Pod of which one container does not say what it needs.
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
			if resources.Limits.Memory().Value() != want || resources.Requests.Memory().Value() != want || (want == 0) != (len(resources.Limits) == 0) {
				t.Errorf("%s: container %d has %+v", name, i, resources)
			}
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
		if got := carries(has, c.wanted); got != c.found {
			t.Errorf("%v: %v", c.wanted, got)
		}
	}
	for key, value := range podLabels(has) {
		assert.True(t, len(key) <= 63+20 && len(value) <= 63 && !strings.ContainsAny(key+value, " @"), "label %q: %q", key, value)
	}
	for _, annotation := range []string{"", "null", "[1]", `{"a": 1}`} {
		altered := &corev1.Pod{}
		altered.Annotations = map[string]string{labelsAnnotation: annotation}
		if got := labelsOf(altered); len(got) > 0 {
			t.Errorf("annotation %q is read as %v", annotation, got)
		}
	}
}
