package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Toleration reads the taint that Pods tolerate, as kubectl writes taints: KEY=VALUE:EFFECT. Without
// a value it is any, and without an effect each.
func Toleration(text string) (corev1.Toleration, error) {
	rest, effect, hasEffect := strings.Cut(text, ":")
	key, value, hasValue := strings.Cut(rest, "=")
	toleration := corev1.Toleration{Key: key, Value: value, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect)}
	if hasValue {
		toleration.Operator = corev1.TolerationOpEqual
	}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	wrong := validation.IsQualifiedName(key)
	wrong = append(wrong, validation.IsValidLabelValue(value)...)
	if hasEffect && !slices.Contains(effects, toleration.Effect) {
		wrong = append(wrong, "its effect must be NoSchedule, PreferNoSchedule or NoExecute")
	}
	if len(wrong) > 0 {
		return corev1.Toleration{}, fmt.Errorf("toleration %.100q: write KEY=VALUE:EFFECT, KEY:EFFECT or KEY: %s", text, strings.Join(wrong, "; "))
	}
	return toleration, nil
}

// checkPlacement looks for what no cluster would take.
func checkPlacement(o Options) error {
	var all []error
	for _, text := range o.Tolerations {
		_, err := Toleration(text)
		all = append(all, err)
	}
	own := ownNodes()
	for _, key := range slices.Sorted(maps.Keys(o.NodeSelector)) {
		value := o.NodeSelector[key]
		wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		if mine, reserved := own[key]; reserved && mine != value {
			wrong = append(wrong, fmt.Sprintf("Pods run on nodes of this program's own platform, which have %s=%s", key, mine))
		}
		if len(wrong) > 0 {
			all = append(all, fmt.Errorf("node selector %.100q: %s", key+"="+value, strings.Join(wrong, "; ")))
		}
	}
	if o.ServiceAccount != "" {
		if wrong := validation.IsDNS1123Subdomain(o.ServiceAccount); len(wrong) > 0 {
			all = append(all, fmt.Errorf("service account %.100q: %s", o.ServiceAccount, strings.Join(wrong, "; ")))
		}
	}
	return errors.Join(all...)
}

// ownNodes are labels of the nodes that can run this program.
func ownNodes() map[string]string {
	return map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH}
}

// place says where a Pod may run, and as whom towards the cluster. Without a service account it has
// the token of none; one that is named has its say (automountServiceAccountToken).
func place(pod *corev1.PodSpec, o Options) error {
	pod.NodeSelector = ownNodes()
	maps.Copy(pod.NodeSelector, o.NodeSelector)
	for _, text := range o.Tolerations {
		toleration, err := Toleration(text)
		if err != nil {
			return err
		}
		pod.Tolerations = append(pod.Tolerations, toleration)
	}
	if pod.ServiceAccountName = o.ServiceAccount; o.ServiceAccount == "" {
		no := false
		pod.AutomountServiceAccountToken = &no
	}
	return nil
}
