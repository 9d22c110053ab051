package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/proposal"
)

// A connection that is cut is taken up again behind what was received, also in the middle of a line.
func TestARunIsFollowedOverConnectionsThatAreCut(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after := r.URL.Query().Get("after")
		switch asked.Add(1) {
		case 1:
			fmt.Fprint(w, "{\"n\":1,\"event\":{\"type\":\"run-started\"}}\n\n{\"n\":4,\"event\":{\"type\":\"line\",\"text\":\"x\"}}\n{\"n\":5,\"ev")
		case 2:
			fmt.Fprint(w, "{\"n\":", after, "5,\"event\":{\"type\":\"line\"}}\n")
		default:
			fmt.Fprint(w, "{\"n\":", after, "6,\"end\":{\"outcome\":\"succeeded\"}}\n")
			return
		}
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	c, err := client.New(client.Options{Server: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	end, err := c.FollowRun(t.Context(), "01JZ", func(o proposal.Observed) { got = append(got, o.N) })
	if err != nil || end.Outcome != "succeeded" || !slices.Equal(got, []int64{1, 4, 45}) {
		t.Errorf("%v, %+v, %v", got, end, err)
	}
}

// Nobody is kept waiting for a run that a server refuses to show, or does not know.
func TestWhatIsNoRunIsNotFollowed(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"refused": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"detail":"you may not do this"}`)
		},
		"gone": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"detail":"no such run"}`)
		},
		"something else": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, strings.Repeat("<html>", 1000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(answer)
			defer s.Close()
			c, err := client.New(client.Options{Server: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			if end, err := c.FollowRun(t.Context(), "01JZ", func(o proposal.Observed) { t.Error(o) }); err == nil {
				t.Errorf("%+v", end)
			}
		})
	}
}

// Behind a load balancer each request comes to another server of the log, of which one carries
// out the run and has the plan.
func TestARunIsFoundBehindALoadBalancer(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%3 != 0 {
			w.WriteHeader(map[string]int{http.MethodGet: http.StatusNotFound, http.MethodPost: http.StatusGone}[r.Method])
			fmt.Fprint(w, `{"detail":"another one has it"}`)
			return
		}
		switch r.URL.Path {
		case "/v1/runs/01JZ/events":
			fmt.Fprint(w, "{\"n\":1,\"end\":{\"outcome\":\"succeeded\"}}\n")
		case "/v1/runs":
			fmt.Fprint(w, `{"run":"01K0"}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	}))
	defer s.Close()
	c, err := client.New(client.Options{Server: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if end, err := c.FollowRun(t.Context(), "01JZ", func(proposal.Observed) {}); err != nil || end.Outcome != "succeeded" {
		t.Errorf("following it: %+v, %v", end, err)
	}
	if plan, err := c.Plan(t.Context(), "01JZ"); err != nil || string(plan) != "{}" {
		t.Errorf("its plan: %s, %v", plan, err)
	}
	if begun, err := c.BeginRun(t.Context(), proposal.Run{Plan: "01JZ"}); err != nil || begun.Run != "01K0" {
		t.Errorf("a run that is bound to it: %+v, %v", begun, err)
	}
	if err := c.StopRun(t.Context(), "01JZ"); err != nil {
		t.Errorf("stopping it: %v", err)
	}
}
