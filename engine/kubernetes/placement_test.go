package kubernetes

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

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
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
