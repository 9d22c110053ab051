package killloop

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// stages writes an inventory of hosts by stage, which are directories.
func (w *world) stages(stages map[string][]string) {
	w.Helper()
	var text strings.Builder
	text.WriteString("hosts: [\n")
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		for _, host := range stages[stage] {
			fmt.Fprintf(&text, "  {name: %s, engine: oci, slots: 2, attributes: {stage: %s}},\n", host, stage)
			if slices.Contains(w.hosts, host) {
				continue
			}
			w.hosts = append(w.hosts, host)
			if err := os.MkdirAll(w.path("hosts", host), 0o700); err != nil {
				w.Fatal(err)
			}
		}
	}
	text.WriteString("]\n")
	w.write("inventory.yaml", text.String())
}
