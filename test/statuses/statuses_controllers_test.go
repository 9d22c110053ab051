//go:build controllers

package statuses

import (
	"testing"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

// What real controllers write of their objects is read as it truly is.
func TestStatusesOfRealControllers(t *testing.T) {
	c := newClient(kubetest.Shared(t))
	c.StartControllers(t)
	repository := images(t, c, "v1", "v2", "v3")
	t.Run("Kubernetes", func(t *testing.T) { workloads(t, c, repository) })
	t.Run("Rollouts", func(t *testing.T) { rollouts(t, c, repository) })
	t.Run("Kustomizations", func(t *testing.T) { kustomizations(t, c) })
	t.Run("Applications", func(t *testing.T) { applications(t, c) })
	t.Run("HelmReleases", func(t *testing.T) { helmReleases(t, c) })
}
