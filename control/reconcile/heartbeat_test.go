package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
)

// heartbeatLog is a log beside which there are heartbeats.
type heartbeatLog struct {
	deploylog.Log
	all []deploylog.Heartbeat
}

func (l *heartbeatLog) Heart() (deploylog.Heart, error)            { return nil, deploylog.ErrLocked }
func (l *heartbeatLog) Heartbeats() ([]deploylog.Heartbeat, error) { return l.all, nil }

func TestASilentControllerIsNamed(t *testing.T) {
	ago := func(d time.Duration, kind, host string, controls ...string) deploylog.Heartbeat {
		return deploylog.Heartbeat{Kind: kind, Role: "scheduler", PID: 7, Host: host, Serves: controls, Controls: controls, Last: time.Now().Add(-d)}
	}
	for name, test := range map[string]struct {
		all    []deploylog.Heartbeat
		silent string
		others string
	}{
		"nobody":                        {nil, "", ""},
		"one that goes on":              {[]deploylog.Heartbeat{ago(2*time.Second, "thing", "h", "a")}, "", ""},
		"one that was stopped":          {[]deploylog.Heartbeat{ago(40*time.Second, "thing", "h", "a")}, `the scheduler, process 7 on h, has recorded no heartbeat for 40s`, ""},
		"that, and one that took over":  {[]deploylog.Heartbeat{ago(time.Hour, "thing", "h", "a"), ago(time.Second, "thing", "h", "a")}, "", ""},
		"one of another":                {[]deploylog.Heartbeat{ago(time.Hour, "thing", "h", "b")}, "", `the scheduler, process 7 on h, serves b`},
		"one of another kind":           {[]deploylog.Heartbeat{ago(time.Hour, "other", "h", "a")}, "", ""},
		"one whose clock was set ahead": {[]deploylog.Heartbeat{ago(-time.Hour, "thing", "h", "a")}, "", ""},
	} {
		log := &heartbeatLog{Log: logtest.NewMemory().Open(), all: test.all}
		f := reconcile.NewFold(reconcile.Kind[*counter]{One: "thing"}, log, time.Now, nil)
		if got := f.Silent("a"); got != test.silent {
			t.Errorf("%s: it says %q", name, got)
		}
		if got := f.Others("a"); !strings.HasPrefix(got, test.others) || (got == "") != (test.others == "") {
			t.Errorf("%s: of others it says %q", name, got)
		}
	}
	f := reconcile.NewFold(reconcile.Kind[*counter]{One: "thing"}, logtest.NewMemory().Open(), time.Now, nil)
	if f.Silent("a")+f.Others("a") != "" {
		t.Error("a log without heartbeats says something")
	}
}
