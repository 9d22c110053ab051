package query

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/reason"
)

func TestWhatIsAlikeIsSaidOnce(t *testing.T) {
	failed := func(cause func(int) string, hosts int) (list []reason.Reason) {
		list = append(list, reason.Reason{Target: "stage/p/s", Code: reason.AwaitsApproval})
		for h := range hosts {
			list = append(list, reason.Reason{Target: deploylog.Target(fmt.Sprint("host/p/g/h", h)), Deployment: "A", Code: reason.HasFailed, Cause: cause(h)})
		}
		return append(list, reason.Reason{Target: "host/p/g/h0", Deployment: "B", Code: reason.HasFailed})
	}
	same, own := func(int) string { return "exit code 1" }, func(h int) string { return fmt.Sprint("exit code ", h) }
	for name, c := range map[string]struct {
		list []reason.Reason
		all  bool
		want int
	}{
		"two hosts":                  {failed(same, 2), false, 4},
		"three hosts":                {failed(same, 3), false, 3},
		"three with their own words": {failed(own, 3), false, 5},
		"many with their own words":  {failed(own, 6), false, 3},
		"all":                        {failed(same, 9), true, 11},
	} {
		t.Run(name, func(t *testing.T) {
			got := AlikeReasons(c.list, c.all)
			if len(got) != c.want {
				t.Errorf("they are %d, want %d: %+v", len(got), c.want, got)
			}
			var hosts []string
			for _, a := range got {
				hosts = append(hosts, a.Hosts...)
			}
			if c.want == 3 && !slices.Equal(hosts[:3], []string{"h0", "h1", "h2"}) {
				t.Errorf("the hosts are %v", hosts)
			}
			text, err := json.Marshal(got)
			var read []struct {
				Target string
				Reason string
				Hosts  []string
			}
			if err != nil || json.Unmarshal(text, &read) != nil || len(read) != c.want || read[1].Target != "host/p/g/h0" || read[1].Reason != "failed" || len(read[1].Hosts) != len(hosts) {
				t.Errorf("as JSON they are %s, %v", text, err)
			}
		})
	}
	if text, err := json.Marshal(AlikeReasons(nil, false)); string(text) != "[]" || err != nil {
		t.Errorf("none is %s, %v", text, err)
	}
}
