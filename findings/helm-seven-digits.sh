#!/usr/bin/env bash
# Helm 3.22.0 reads a whole number in values.yaml as a float. A template prints it as it is written up to
# six digits and in scientific notation from seven digits on, so a tag that is a build number or a hash
# of digits only becomes another tag without an error. Quotes keep it. A value given by --set is not
# affected, so the same chart works by --set and fails from the file.
#
# The script renders one template with values as Helm reads them. It fails if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
cd "$work"
cat >go.mod <<'MOD'
module finding

go 1.24

require helm.sh/helm/v3 v3.22.0
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
)

func main() {
	for _, tag := range []string{"123456", "1234567", `"1234567"`} {
		values, err := chartutil.ReadValues([]byte("tag: " + tag + "\n"))
		fmt.Println("values.yaml", tag, render(values, err))
	}
	values, err := strvals.Parse("tag=1234567")
	fmt.Println("--set 1234567", render(values, err))
}

func render(values map[string]any, err error) string {
	if err != nil {
		return err.Error()
	}
	c := &chart.Chart{
		Metadata:  &chart.Metadata{Name: "shop", Version: "1.0.0", APIVersion: "v2"},
		Templates: []*chart.File{{Name: "templates/a.yaml", Data: []byte("image: shop:{{ .Values.tag }}")}},
	}
	out, err := engine.Render(c, map[string]any{"Values": values})
	if err != nil {
		return err.Error()
	}
	return out["shop/templates/a.yaml"]
}
GO
go mod tidy >/dev/null 2>&1
seen=$(go run .)
wanted='values.yaml 123456 image: shop:123456
values.yaml 1234567 image: shop:1.234567e+06
values.yaml "1234567" image: shop:1234567
--set 1234567 image: shop:1234567'
echo "$seen"
[ "$seen" = "$wanted" ] || { echo "Helm renders these values otherwise now" >&2; exit 1; }
