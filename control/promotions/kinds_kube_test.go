//go:build kube

package promotions_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// kind is what a cluster has to know before it takes objects of a controller, as the Go module of
// the controller has it.
type kind struct{ module, sum, file string }

var (
	kustomizations = kind{
		"github.com/fluxcd/kustomize-controller@v1.7.3", "h1:SzNnGn/4ObAPEHHleM5U7y/AKxKXph3Vj6ZhteeXw8M=",
		"config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml",
	}
	helmReleases = kind{
		"github.com/fluxcd/helm-controller@v1.4.0", "h1:rkm8rmB6Na7eNc4pJOnvtXEaJ19iKluRtayHKjBxcUM=",
		"config/crd/bases/helm.toolkit.fluxcd.io_helmreleases.yaml",
	}
	applications = kind{
		"github.com/argoproj/argo-cd/v3@v3.3.0", "h1:9UlruTd5cC/MyvorTXgAIblfZTy63MF5FYvvoAaUvwU=",
		"manifests/crds/application-crd.yaml",
	}
)

// object is the kind as an API server takes it.
func (k kind) object(t testing.TB) fields {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", k.module)
	download.Dir = "/" // it is no module that this one needs
	said, err := download.Output()
	var found struct{ Dir, Sum, Error string }
	if decoding := json.Unmarshal(said, &found); err != nil || decoding != nil || found.Sum != k.sum {
		t.Fatalf("download %s: %v %v: %s; its sum is %q, want %q", k.module, err, decoding, found.Error, found.Sum, k.sum)
	}
	text, err := os.ReadFile(filepath.Join(found.Dir, k.file))
	var object fields
	if err == nil {
		err = yaml.Unmarshal(text, &object)
	}
	require.NoError(t, err)
	return object
}

// installs makes a kind known to the cluster, where it is gone with the test.
func (f *space) installs(k kind) {
	f.Helper()
	object := k.object(f)
	name := object["metadata"].(map[string]any)["name"].(string)
	f.Create(f, definitions, object)
	f.Cleanup(func() {
		f.Ask(f, http.MethodDelete, definitions+"/"+name, nil)
		kubetest.AwaitGone(f, f.Cluster, definitions+"/"+name)
	})
	kubetest.Await(f, f.Cluster, definitions+"/"+name, "it is served", established)
}

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// defined is a kind as the API server has it.
type defined struct {
	Status struct {
		Conditions []struct{ Type, Status string }
	}
}

func established(d defined) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			return true
		}
	}
	return false
}

// makes makes an object of which no controller has said anything.
func (f *space) makes(path, kind, name string, spec fields) {
	f.Helper()
	api := strings.Split(strings.TrimPrefix(path, "/apis/"), "/")
	f.Create(f, path+strict, fields{"apiVersion": api[0] + "/" + api[1], "kind": kind, "metadata": fields{"name": name}, "spec": spec})
}

// strict has an API server refuse members that a kind does not have.
const strict = "?fieldValidation=Strict"
