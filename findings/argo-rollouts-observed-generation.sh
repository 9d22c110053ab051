#!/usr/bin/env bash
# Argo Rollouts 1.10.1 declares status.observedGeneration as a string. Deployments, StatefulSets and
# Flux declare it as a number. A reader that takes only numbers finds none and believes the status
# of the generation before: a Rollout counts as Healthy for an image whose canary has not begun.
#
# The script decodes the same status with the types of both modules. It fails if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
cd "$work"
cat >go.mod <<'MOD'
module finding

go 1.24

require (
	github.com/argoproj/argo-rollouts v1.10.1
	k8s.io/api v0.34.1
)
MOD
cat >main.go <<'GO'
package main

import (
	"encoding/json"
	"fmt"

	rollouts "github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	apps "k8s.io/api/apps/v1"
)

func main() {
	for _, status := range []string{`{"observedGeneration": 3}`, `{"observedGeneration": "3"}`} {
		fmt.Println(status, "Rollout:", reads(status, &rollouts.RolloutStatus{}), "Deployment:", reads(status, &apps.DeploymentStatus{}))
	}
}

func reads(text string, into any) bool { return json.Unmarshal([]byte(text), into) == nil }
GO
go mod tidy >/dev/null 2>&1
seen=$(go run .)
wanted='{"observedGeneration": 3} Rollout: false Deployment: true
{"observedGeneration": "3"} Rollout: true Deployment: false'
echo "$seen"
[ "$seen" = "$wanted" ] || { echo "the types have changed" >&2; exit 1; }
