package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// What every Pod of an engine carries.
const (
	managedBy        = "app.kubernetes.io/managed-by"
	labelsAnnotation = "deployster.dev/labels"
)

// podLabels are those by which a cluster finds a Pod. Labels of an engine are any texts, and
// those of a cluster are not: where a key or a value is not allowed its hash stands for it.
// What the labels are is in an annotation.
func podLabels(labels map[string]string) map[string]string {
	all := map[string]string{managedBy: "deployster"}
	for key, value := range labels {
		all[labelKey(key)] = labelValue(value)
	}
	return all
}

func labelKey(key string) string {
	if len(validation.IsQualifiedName(key)) == 0 && key != managedBy {
		return key
	}
	return "deployster.dev/" + hash(key)
}

func labelValue(value string) string {
	if len(validation.IsValidLabelValue(value)) == 0 {
		return value
	}
	return "hash-" + hash(value)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:20])
}

// encodeLabels is never empty: by its annotation is known which Pods are those of runs.
func encodeLabels(labels map[string]string) string {
	if labels == nil {
		labels = map[string]string{}
	}
	encoded, err := json.Marshal(labels)
	if err != nil {
		panic(err) // texts can be encoded
	}
	return string(encoded)
}

// labelsOf are the labels of a Pod as the engine knows them.
func labelsOf(pod *corev1.Pod) map[string]string {
	var labels map[string]string
	if err := json.Unmarshal([]byte(pod.Annotations[labelsAnnotation]), &labels); err != nil {
		return nil // somebody has changed it
	}
	return labels
}

// selector finds the Pods that carry all the labels, and perhaps others whose hashes are theirs.
func selector(labels map[string]string) string {
	terms := []string{managedBy + "=deployster"}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		term := labelKey(key)
		if value := labels[key]; value != "" {
			term += "=" + labelValue(value)
		}
		terms = append(terms, term)
	}
	return strings.Join(terms, ",")
}

// carries reports whether all of the labels are there; an empty value matches any.
func carries(has, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, there := has[key]; !there || value != "" && got != value {
			return false
		}
	}
	return true
}
