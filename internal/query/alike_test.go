package query

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	build "github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
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
			assert.Len(t, got, c.want, "they")
			var hosts []string
			for _, a := range got {
				hosts = append(hosts, a.Hosts...)
			}
			assert.True(t, c.want != 3 || slices.Equal(hosts[:3], []string{"h0", "h1", "h2"}), "the hosts are %v", hosts)
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
	text, err := json.Marshal(AlikeReasons(nil, false))
	assert.True(t, string(text) == "[]" && err == nil, "none is %s, %v", text, err)
}

// Hosts that failed for causes that differ in more than the name of the host are not told as
// one, and of those with words of their own none is lost.
func TestCausesThatDifferAreToldApart(t *testing.T) {
	const missing, refused = "hosts/%s: there is no such file or directory", "host-deployed of %s failed: exit code 1"
	fail := func(causes ...string) (list []reason.Reason) {
		for i, cause := range causes {
			host := fmt.Sprint("h", i+1)
			list = append(list, reason.Reason{Target: deploylog.Target("host/p/g/" + host), Code: reason.HasFailed, Cause: strings.ReplaceAll(cause, "%s", host)})
		}
		return list
	}
	for name, c := range map[string]struct {
		list []reason.Reason
		want string // the hosts that are said together
		own  int    // causes that are kept
	}{
		"two causes":              {fail(missing, refused, missing, refused, missing, refused, refused), "[h1 h3 h5] [h2 h4 h6 h7]", 0},
		"a cause and others":      {fail(missing, refused, missing, refused, missing, "disk full", "no route"), "[h1 h3 h5] [] [] [] []", 0},
		"six with other causes":   {fail("a", "b", "a %s", "b", "c", "d", "e"), "[h1 h2 h3 h4 h5 h6 h7]", 7},
		"a name within a name":    {fail("h10 is lost", "h20 is lost", "h30 is lost"), "[] [] []", 0},
		"of all, and so of each":  {fail("h1, h2 failed", "h1, h2 failed", "h1, h2 failed"), "[h1 h2 h3]", 0},
		"names beside each other": {fail("%s/%s.yaml", "%s/%s.yaml", "%s/%s.yaml"), "[h1 h2 h3]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range AlikeReasons(c.list, false) {
				got = append(got, fmt.Sprint(a.Hosts))
				text, err := json.Marshal(a)
				var read struct{ Causes map[string]string }
				if err != nil || json.Unmarshal(text, &read) != nil || len(read.Causes) != c.own {
					t.Errorf("as JSON it is %s, %v", text, err)
				}
				for _, r := range c.list {
					_, host, _ := hostOf(r.Target)
					assert.True(t, c.own <= 0 || read.Causes[host] == r.Cause, "the cause of %s is lost in %s", host, text)
				}
			}
			assert.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}

func TestJobsOfOtherPlacesAreNotAlike(t *testing.T) {
	job := func(number int, code build.Code, place string) build.Reason {
		return build.Details{Place: place, Slots: 1}.Explain(code, record.Job("base-1", number))
	}
	for _, code := range []build.Code{build.NoWorker, build.WorkersBusy} {
		got := alikeJobs([]build.Reason{job(1, code, "linux/amd64"), job(2, code, "linux/s390x"), job(3, code, "linux/amd64"), job(4, code, "linux/s390x")}, false)
		if len(got) != 2 || !slices.Equal(got[0].Others, record.Numbers{3}) || !slices.Equal(got[1].Others, record.Numbers{4}) || !strings.Contains(got[1].Message, "linux/s390x") {
			t.Errorf("they are %+v", got)
		}
	}
}
