package kubernetes

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// Claim begins the source of a mount that is a PersistentVolumeClaim of the namespace, whose
// name follows, and perhaps the path of a directory in its volume.
const Claim = "persistentvolumeclaim:"

// Where a Pod has what it is prepared with.
const (
	shimVolume  = "deployster-shim"
	filesVolume = "deployster-files"
	workVolume  = "deployster-work"
	prepareShim = "/shim"
	prepareCopy = "/files"
)

// unprivileged is who a program runs as whose image does not say, where root is forbidden.
const unprivileged = 65532

// longest is how many bytes Linux takes as one argument or variable.
const longest = 128<<10 - 1

// mostWork is how much a Pod may have in its work directory, which is on the disk of its node: a
// cluster evicts one that has more.
const mostWork = 1 << 30

// plan is what a Pod is made of.
type plan struct {
	spec   engine.Spec
	image  resolved
	shim   string // image of the shim
	idle   time.Duration
	life   time.Duration // of a Pod whose program has no time limit
	copied *copied
}

// newPlan looks for what a cluster cannot do.
func newPlan(spec engine.Spec, image resolved, shim string, idle, life time.Duration) (*plan, error) {
	if err := errors.Join(checkLengths(spec), checkNetwork(spec)); err != nil {
		return nil, &engine.SpecError{Cause: err}
	}
	if spec.Pids > 0 {
		return nil, &engine.SpecError{Cause: errors.New("a cluster bounds how many processes a Pod may have for all of a node (podPidsLimit of its kubelet), and not for one Pod: leave --pids away")}
	}
	p := &plan{spec: spec, image: image, shim: shim, idle: idle, life: life, copied: &copied{hidden: spec.Hide}}
	for _, m := range spec.Mounts {
		switch {
		case strings.HasPrefix(m.Source, Claim):
			p.copied.inner = append(p.copied.inner, path.Clean(m.Target))
		case m.ReadOnly:
			p.copied.mounts = append(p.copied.mounts, m)
			p.copied.inner = append(p.copied.inner, path.Clean(m.Target))
		default:
			return nil, &engine.SpecError{Cause: fmt.Errorf("%s is to be written to, and a cluster does not see the files of this machine: give the plug the path %sNAME, of a claim for a volume of the cluster", m.Source, Claim)}
		}
	}
	p.copied.inner = append(p.copied.inner, spec.Hide...)
	if spec.Work != "" {
		p.copied.inner = append(p.copied.inner, path.Clean(spec.Work))
	}
	return p, p.copied.check()
}

func checkLengths(spec engine.Spec) error {
	for i, argument := range spec.Args {
		if len(argument) > longest {
			return fmt.Errorf("argument %d is too long: it has %d bytes, and Linux takes %d; hand it over on stdin or in a file", i+1, len(argument), longest)
		}
	}
	for _, variable := range spec.Env {
		if name, _, _ := strings.Cut(variable, "="); len(variable) > longest {
			return fmt.Errorf("variable %.100s is too long: it has %d bytes, and Linux takes %d; hand it over on stdin or in a file", name, len(variable), longest)
		}
	}
	return nil
}

func checkNetwork(spec engine.Spec) error {
	if spec.Network == "" {
		return nil
	}
	return fmt.Errorf("network %q: a Pod has the network of its cluster, and no other; what it may reach a NetworkPolicy bounds", spec.Network)
}

// pod returns the Pod.
func (p *plan) pod(o Options) (*corev1.Pod, error) {
	argv := p.argv()
	if len(argv) == 0 {
		return nil, &engine.SpecError{Cause: errors.New("the image has no entrypoint, and none is given")}
	}
	security, user, err := identity(o.PodSecurity, p.spec.User, p.image.config)
	if err != nil {
		return nil, &engine.SpecError{Cause: err}
	}
	name, _, _ := strings.Cut(user, ":")
	p.copied.foreign = name != "" && name != "root" && name != "0"
	shimAt := "/.deployster-entrypoint-" + rand.Text()
	role := entrypoint.Pod{Idle: p.idle, Whole: p.spec.Whole, User: user, Home: user != "" && !sets(p.spec.Env, "HOME") && !sets(p.image.config.Env, "HOME")}
	no, pod := false, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "deployster-" + strings.ToLower(rand.Text()), Labels: podLabels(p.spec.Labels),
			Annotations: map[string]string{labelsAnnotation: encodeLabels(p.spec.Labels)},
		},
	}
	pod.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, EnableServiceLinks: &no,
		SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		InitContainers:  []corev1.Container{p.prepare(security)},
		Containers: []corev1.Container{{
			Name: mainContainer, Image: p.image.pinned, ImagePullPolicy: corev1.PullIfNotPresent,
			Command: escaped(append([]string{shimAt + "/deployster"}, role.Arguments()...)), Args: escaped(argv),
			Env: variables(p.spec.Env), WorkingDir: p.spec.WorkDir, Stdin: true, StdinOnce: true,
			VolumeMounts:    append(p.mounts(), corev1.VolumeMount{Name: shimVolume, MountPath: shimAt, ReadOnly: true}),
			Resources:       limits(p.spec.Memory),
			SecurityContext: security,
		}},
		Volumes: p.volumes(),
	}
	if err := place(&pod.Spec, o); err != nil {
		return nil, err
	}
	if security.RunAsNonRoot != nil && slices.ContainsFunc(p.spec.Mounts, writesClaim) {
		shareVolumes(pod.Spec.SecurityContext, security)
	}
	for _, secret := range o.PullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	deadline := int64((p.lasts() + time.Second - 1).Seconds())
	pod.Spec.ActiveDeadlineSeconds = &deadline
	return pod, nil
}

// shareVolumes has a node make the volumes of claims that are written to belong to the program's group,
// which could not write to a new one: that is root's. A volume whose root is the group's already is
// left as it is, as others have files there, perhaps millions. What else a Pod writes to everybody may.
func shareVolumes(pod *corev1.PodSecurityContext, program *corev1.SecurityContext) {
	pod.FSGroup = cmp.Or(program.RunAsGroup, program.RunAsUser)
	policy := corev1.FSGroupChangeOnRootMismatch
	pod.FSGroupChangePolicy = &policy
}

// lasts is after how long on its node the cluster ends the Pod.
func (p *plan) lasts() time.Duration {
	if p.spec.Timeout > 0 { // which this process watches over, unless it dies
		return p.spec.Timeout + startTimeout
	}
	return p.life
}

// argv is the program: an entrypoint of the spec drops the image's command.
func (p *plan) argv() []string {
	entry, args := p.image.config.Entrypoint, p.image.config.Cmd
	if p.spec.Entrypoint != "" {
		entry, args = []string{p.spec.Entrypoint}, nil
	}
	if p.spec.Args != nil {
		args = p.spec.Args
	}
	return slices.Concat(entry, args)
}

// prepare is the container that brings the shim along, and copies of files. A quota wants to know of
// it what it wants to know of the program's. The copies stay in the memory of the Pod, which is bounded
// by the larger of the two.
func (p *plan) prepare(security *corev1.SecurityContext) corev1.Container {
	role := entrypoint.Prepare{Idle: p.idle, Shim: prepareShim + "/deployster"}
	mounts := []corev1.VolumeMount{{Name: shimVolume, MountPath: prepareShim}}
	memory := p.spec.Memory
	if p.copies() {
		if memory > 0 {
			memory += copiedMemory
		}
		role.Files = prepareCopy
		mounts = append(mounts, corev1.VolumeMount{Name: filesVolume, MountPath: prepareCopy})
	}
	return corev1.Container{
		Name: prepareContainer, Image: p.shim, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: escaped(append([]string{shimPath}, role.Arguments()...)), Stdin: p.copies(), StdinOnce: p.copies(),
		VolumeMounts: mounts, Resources: limits(memory), SecurityContext: security,
	}
}

// copies reports whether anything is copied into the Pod.
func (p *plan) copies() bool { return len(p.copied.mounts)+len(p.copied.hidden) > 0 }

func (p *plan) volumes() []corev1.Volume {
	empty := func(name string, medium corev1.StorageMedium) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
	}
	all := []corev1.Volume{empty(shimVolume, "")}
	if p.copies() {
		all = append(all, empty(filesVolume, corev1.StorageMediumMemory)) // plugs may be secret: they stay off disks
	}
	if p.spec.Work != "" {
		work := empty(workVolume, "")
		work.EmptyDir.SizeLimit = resource.NewQuantity(mostWork, resource.BinarySI)
		all = append(all, work)
	}
	seen := map[string]bool{}
	for _, m := range p.spec.Mounts {
		if claim, _, ok := claimOf(m.Source); ok && !seen[claim] {
			seen[claim] = true
			all = append(all, corev1.Volume{Name: "claim-" + hash(claim), VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: !p.writes(claim)},
			}})
		}
	}
	return all
}

// writes reports whether the program may write to a claim. A node changes nothing in one that is
// only read, and one may be there that can only be read.
func (p *plan) writes(claim string) bool {
	return slices.ContainsFunc(p.spec.Mounts, func(m engine.Mount) bool {
		of, _, _ := claimOf(m.Source)
		return of == claim && writesClaim(m)
	})
}

func writesClaim(m engine.Mount) bool { return strings.HasPrefix(m.Source, Claim) && !m.ReadOnly }

// mounts are those of the program's container.
func (p *plan) mounts() []corev1.VolumeMount {
	var all []corev1.VolumeMount
	n := 0
	add := func(target string) {
		all = append(all, corev1.VolumeMount{Name: filesVolume, MountPath: target, SubPath: strconv.Itoa(n), ReadOnly: true})
		n++
	}
	for _, m := range p.copied.mounts {
		add(m.Target)
	}
	for _, hidden := range p.copied.hidden {
		add(hidden)
	}
	if p.spec.Work != "" {
		all = append(all, corev1.VolumeMount{Name: workVolume, MountPath: p.spec.Work})
	}
	for _, m := range p.spec.Mounts {
		if claim, below, ok := claimOf(m.Source); ok {
			all = append(all, corev1.VolumeMount{Name: "claim-" + hash(claim), MountPath: m.Target, SubPath: below, ReadOnly: m.ReadOnly})
		}
	}
	return all
}

// claimOf takes the source of a mount apart that is a claim.
func claimOf(source string) (claim, below string, ok bool) {
	rest, ok := strings.CutPrefix(source, Claim)
	claim, below, _ = strings.Cut(rest, "/")
	return claim, below, ok
}

// identity decides as whom the program runs: as the container's user, or as one that the
// shim becomes, which sees the files of the image.
func identity(level PodSecurity, asked string, image v1.Config) (security *corev1.SecurityContext, user string, err error) {
	no, yes := false, true
	if asked == "" {
		asked = image.User
	}
	security = &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	if level == Baseline {
		var root int64
		security.RunAsUser, security.RunAsGroup = &root, &root
		for _, capability := range engine.Capabilities() {
			security.Capabilities.Add = append(security.Capabilities.Add, corev1.Capability(strings.TrimPrefix(capability, "CAP_")))
		}
		return security, asked, nil
	}
	security.RunAsNonRoot = &yes
	if asked == "" {
		asked = fmt.Sprintf("%d:%d", unprivileged, unprivileged)
	}
	name, group, hasGroup := strings.Cut(asked, ":")
	uid, err := strconv.ParseInt(name, 10, 64)
	switch {
	case name == "root" || err == nil && uid == 0:
		return nil, "", fmt.Errorf("it is to run as root, which Pods may not that keep to the restricted standard: give the image another user (USER 1000), or allow root with --pod-security baseline (of a host: pod_security)")
	case err != nil:
		return nil, "", fmt.Errorf("it is to run as user %q, and Pods that keep to the restricted standard need the user's number: write USER 1000 in the image, or allow root with --pod-security baseline (of a host: pod_security)", name)
	}
	security.RunAsUser = &uid
	if hasGroup {
		gid, err := strconv.ParseInt(group, 10, 64)
		if err != nil {
			return nil, "", fmt.Errorf("it is to run with group %q, and Pods that keep to the restricted standard need the group's number", group)
		}
		security.RunAsGroup = &gid
	}
	return security, "", nil
}

func limits(bytes int64) corev1.ResourceRequirements {
	if bytes == 0 {
		return corev1.ResourceRequirements{}
	}
	memory := corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI)}
	return corev1.ResourceRequirements{Limits: memory, Requests: memory}
}

// variables are those of a container.
func variables(env []string) []corev1.EnvVar {
	var all []corev1.EnvVar
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		all = append(all, corev1.EnvVar{Name: name, Value: escape(value)})
	}
	return all
}

func sets(env []string, name string) bool {
	return slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// escape keeps a cluster from replacing $(VARIABLE) in a text.
func escape(text string) string { return strings.ReplaceAll(text, "$", "$$") }

func escaped(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = escape(text)
	}
	return all
}
