//go:build kube

package kubernetes

import (
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

func TestKubernetesPassesTheSuite(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Baseline)
	enginetest.Run(t, func(*testing.T) engine.Engine { return f.Engine }, enginetest.Images{
		Probe: f.ref, Tar: f.tar,
		NoLimits: true, OneNetwork: true, Supervised: true, Unkept: true, HeldRuns: true, Works: true,
		Writable: f.volume,
		Leave:    f.leave,
		Caller:   func(t *testing.T, order string) *exec.Cmd { return f.caller(t, order) },
	})
}

func newClaim(name string) *corev1.PersistentVolumeClaim {
	class := ""
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class, VolumeName: name,
			Resources: corev1.VolumeResourceRequirements{Requests: space()},
		},
	}
}

func newVolume(name, directory string, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: space(),
			ClaimRef:               &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: directory}},
		},
	}
}

func space() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}
