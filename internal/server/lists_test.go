package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/pipeline"
)

// listed is a part of the list of pipelines.
type listed struct {
	Event int64
	Items []struct{ Pipeline string }
	Next  string
}

func listPart(t *testing.T, url string, header ...string) (l listed, h http.Header, status int) {
	t.Helper()
	status, h, body := ask(t, "GET", url, "viewer", "", header...)
	if status == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &l); err != nil {
			t.Fatal(err)
		}
	} else if status == http.StatusNotModified && body != "" {
		t.Errorf("304 with %q", body)
	}
	return l, h, status
}

// Who reads a list in parts gets each row once, though others are added before and behind.
func TestAListIsReadInPartsWhileItGrows(t *testing.T) {
	log := inFile(t, 9)
	_, at := newServer(t, log)
	all := pipelines.New(log, time.Now)
	var got []string
	next := at + "/v1/pipelines?limit=2"
	for i := 0; next != ""; i++ {
		l, h, status := listPart(t, next)
		if status != http.StatusOK || len(l.Items) > 2 || i > 20 {
			t.Fatalf("%s: %d %+v", next, status, l)
		}
		for _, row := range l.Items {
			got = append(got, row.Pipeline)
		}
		if next = ""; l.Next != "" {
			next = at + strings.TrimSuffix(strings.TrimPrefix(h.Get("Link"), "<"), `>; rel="next"`)
		}
		d := querytest.Definition()
		d.Name = fmt.Sprint("a", i) // before all others
		if _, err := all.Command(t.Context(), d.Name, pipeline.Define{Definition: d, ID: "new" + d.Name}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// An answer that still holds is not sent again; one of something else is.
func TestAListThatHasNotChangedIsNotSentAgain(t *testing.T) {
	log := inFile(t, 3)
	_, at := newServer(t, log)
	_, h, _ := listPart(t, at+"/v1/pipelines")
	_, other, _ := listPart(t, at+"/v1/environments")
	tag := h.Get("ETag")
	for _, c := range []struct {
		query, tags string
		want        int
	}{
		{"", tag, 304}, {"", "W/" + tag, 304}, {"", `"x", ` + tag, 304}, {"", "*", 304},
		{"", other.Get("ETag"), 200}, {"", strings.Trim(tag, `"`), 200}, {"", `"x"`, 200}, {"?limit=2", tag, 200},
	} {
		if _, h, status := listPart(t, at+"/v1/pipelines"+c.query, "If-None-Match", c.tags, "Accept-Encoding", "gzip"); status != c.want || h.Get("ETag") == "" || h.Get("Content-Encoding") != "" {
			t.Errorf("%s with %s: %d %v, want %d", c.query, c.tags, status, h, c.want)
		}
	}
	if _, err := log.Append(t.Context(), started(1)); err != nil {
		t.Fatal(err)
	}
	if _, h, status := listPart(t, at+"/v1/pipelines", "If-None-Match", tag); status != 200 || h.Get("ETag") == tag {
		t.Errorf("after an event: %d %v", status, h)
	}
}

// No cursor leads anywhere that next does not lead to.
func TestHostileParts(t *testing.T) {
	_, at := newServer(t, inFile(t, 3))
	first, _, _ := listPart(t, at+"/v1/pipelines?limit=1")
	list, _ := base64.RawURLEncoding.DecodeString(first.Next)
	of, _, _ := strings.Cut(string(list), ":")
	text := func(after string) string { return base64.RawURLEncoding.EncodeToString([]byte(of + ":" + after)) }
	for query, want := range map[string]int{
		"limit=0": 422, "limit=-1": 422, "limit=1000000000": 422, "limit=x": 422, "limit=99999999999999999999": 422,
		"cursor=%00": 422, "cursor=../..": 422, "cursor=" + base64.RawURLEncoding.EncodeToString([]byte("other:p0")): 422, "cursor=" + text(""): 422,
		"cursor=" + strings.Repeat("a", 3000): 422, "cursor=" + text("p1\x00\xff"): 200,
		"cursor=" + text("zzz"): 200, "cursor=": 200, "limit=1000": 200,
	} {
		l, _, status := listPart(t, at+"/v1/pipelines?"+query)
		if status != want || strings.Contains(query, text("zzz")) && len(l.Items) > 0 {
			t.Errorf("%.60s: %d %+v, want %d", query, status, l, want)
		}
	}
}
