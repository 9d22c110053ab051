package client_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/proposal"
)

// A connection that is cut is taken up again behind what was received, also in the middle of a line.
func TestARunIsFollowedOverConnectionsThatAreCut(t *testing.T) {
	var asked atomic.Int64
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
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
	})
	var got []int64
	end, err := c.FollowRun(t.Context(), "01JZ", func(o proposal.Observed) { got = append(got, o.N) })
	if err != nil || end.Outcome != "succeeded" || !slices.Equal(got, []int64{1, 4, 45}) {
		t.Errorf("%v, %+v, %v", got, end, err)
	}
}

// A server may be restarted while what a run carries is sent to it.
func TestAnObjectIsSentAgainWhenTheConnectionIsCut(t *testing.T) {
	var sent atomic.Int64
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if content, err := io.ReadAll(r.Body); err != nil || string(content) != "text" {
			t.Errorf("%q, %v", content, err)
		}
		if sent.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	if _, err := objects.Via(c.Objects()).Keep([]byte("text")); err != nil || sent.Load() != 2 {
		t.Errorf("it was sent %d times: %v", sent.Load(), err)
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
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, strings.Repeat("<html>", 1000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := connect(t, answer).FollowRun(t.Context(), "01JZ", func(o proposal.Observed) { t.Error(o) })
			assert.Error(t, err)
		})
	}
}

// Behind a load balancer each request comes to another server of the log, of which one carries
// out the run and has the plan.
func TestARunIsFoundBehindALoadBalancer(t *testing.T) {
	var asked atomic.Int64
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
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
	})
	end, err := c.FollowRun(t.Context(), "01JZ", func(proposal.Observed) {})
	require.NoError(t, err)
	assert.Equal(t, "succeeded", end.Outcome)
	plan, err := c.Plan(t.Context(), "01JZ")
	require.NoError(t, err)
	assert.Equal(t, "{}", string(plan))
	begun, err := c.BeginRun(t.Context(), proposal.Run{Plan: "01JZ"}) // it is bound to the plan
	require.NoError(t, err)
	assert.Equal(t, "01K0", begun.Run)
	assert.NoError(t, c.StopRun(t.Context(), "01JZ"))
}

// While servers are restarted, a load balancer says that it reaches none.
func TestALoadBalancerThatReachesNoServerIsAskedAgain(t *testing.T) {
	var asked atomic.Int64
	answers := map[string]string{
		"GET /v1/log": `{"id":"01LOG"}`, "PUT /v1/objects/00": "", "POST /v1/salt": `{"salt":"00"}`, "POST /v1/runs": `{"run":"01K0"}`, "POST /v1/runs/01K0/stop": `{}`,
		"POST /v1/plans": `{"run":"01K1"}`, "POST /v1/workers/w/look": `{"platforms":["linux/amd64"]}`, "POST /v1/workers/w/images": `{"id":"sha256:00"}`,
		"GET /v1/runs/01K0/events": "{\"n\":1,\"end\":{\"outcome\":\"succeeded\"}}\n",
	}
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "<html>502 Bad Gateway</html>")
			return
		}
		fmt.Fprint(w, answers[r.Method+" "+r.URL.Path])
	})
	log, err := c.Open(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "01LOG", log.ID())
	assert.NoError(t, c.Objects().Keep("00", []byte("text")))
	_, err = c.Objects().Salt()
	require.NoError(t, err)
	begun, err := c.BeginRun(t.Context(), proposal.Run{})
	require.NoError(t, err)
	assert.Equal(t, "01K0", begun.Run)
	end, err := c.FollowRun(t.Context(), "01K0", func(proposal.Observed) {})
	require.NoError(t, err)
	assert.Equal(t, "succeeded", end.Outcome)
	assert.NoError(t, c.StopRun(t.Context(), "01K0"))
	begun, err = c.BeginPlan(t.Context(), proposal.Run{})
	require.NoError(t, err)
	assert.Equal(t, "01K1", begun.Run)
	platforms, err := c.Look(t.Context(), "w")
	require.NoError(t, err)
	assert.Len(t, platforms, 1)
	image, err := c.Image(t.Context(), "w", "base", engine.PullMissing)
	require.NoError(t, err)
	assert.Equal(t, "sha256:00", image.ID)
	assert.ErrorContains(t, c.SendSigned(t.Context(), "/signed", nil, nil, nil), // which may be sent once
		"answers 502 Bad Gateway: what is before it reaches no server of Deployster at present: try again when one runs")
	assert.EqualValues(t, 19, asked.Load(), "requests")
}
