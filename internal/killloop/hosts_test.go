package killloop

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// stages writes an inventory of hosts by stage, which are directories. Those that have other stages
// are in it, too.
func (w *world) stages(stages map[string][]string) {
	w.Helper()
	of := map[string][]string{}
	for _, all := range []map[string][]string{stages, w.others} {
		for _, stage := range slices.Sorted(maps.Keys(all)) {
			for _, host := range all[stage] {
				of[host] = append(of[host], stage)
			}
		}
	}
	var text strings.Builder
	text.WriteString("hosts: [\n")
	for _, host := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&text, "  {name: %s, engine: oci, slots: 2, attributes: {stage: [%s]}},\n", host, strings.Join(of[host], ", "))
		if slices.Contains(w.hosts, host) {
			continue
		}
		w.hosts = append(w.hosts, host)
		require.NoError(w, os.MkdirAll(w.path("hosts", host), 0o700))
	}
	text.WriteString("]\n")
	w.write("inventory.yaml", text.String())
}

// foreign is a worker with an inventory of its own, the queries of which select other hosts.
// It is to leave alone what there is.
func (w *world) foreign(args ...string) {
	w.Helper()
	w.write("foreign.yaml", `hosts:
  - {name: x, engine: oci, attributes: {stage: [beta, prod, fleet]}}
  - {name: y, engine: oci, attributes: {stage: [beta, prod, fleet]}}
  - {name: a, engine: oci, attributes: {stage: elsewhere}}
`)
	w.work(append(args, "--inventory", "foreign.yaml")...)
	w.workers[len(w.workers)-1].foreign = true
}

// checkForeign checks that nobody with another inventory changed the hosts of anything, or
// did a step on them.
func (w *world) checkForeign(events []deploylog.Event) {
	w.Helper()
	for _, e := range events {
		d := w.details(e)
		for _, host := range slices.Concat(d.Hosts, d.Joined, d.Left, d.Lost) {
			if host == "x" || host == "y" {
				w.Errorf("event %d, %s of %s, is of host %s of another inventory", e.Seq, e.Name, e.Target, host)
			}
		}
		if strings.HasSuffix(string(e.Target), "@x") || strings.HasSuffix(string(e.Target), "@y") || strings.HasSuffix(string(e.Target), "/x") || strings.HasSuffix(string(e.Target), "/y") {
			w.Errorf("event %d, %s, is of %s", e.Seq, e.Name, e.Target)
		}
	}
}
