package docker

import (
	"slices"
	"testing"

	"github.com/moby/moby/api/types/jsonstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/engine"
)

func message(id, status string, counts ...int64) jsonstream.Message {
	m := jsonstream.Message{ID: id, Status: status}
	if len(counts) == 2 {
		m.Progress = &jsonstream.Progress{Current: counts[0], Total: counts[1]}
	}
	return m
}

func TestProgressOverLayers(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages []jsonstream.Message
		want     [][2]int64 // current and total of each report after the first
	}{
		{"nothing to fetch", []jsonstream.Message{message("tag", "Pulling from here"), message("a", "Already exists"), message("", "Status: up to date")}, nil},
		{"the total is unknown until every layer's is", []jsonstream.Message{
			message("a", "Pulling fs layer"), message("b", "Pulling fs layer"),
			message("a", "Downloading", 10, 100), message("b", "Waiting"), message("a", "Downloading", 50, 100),
			message("b", "Downloading", 5, 20), message("a", "Download complete"), message("b", "Download complete"),
		}, [][2]int64{{10, 0}, {50, 0}, {55, 120}, {105, 120}, {120, 120}}},
		{"extracting is not counted again", []jsonstream.Message{
			message("a", "Downloading", 10, 100), message("a", "Verifying Checksum"), message("a", "Extracting", 1, 100), message("a", "Extracting", 100, 100), message("a", "Pull complete"),
		}, [][2]int64{{10, 100}, {100, 100}}},
		{"a layer too small to be reported", []jsonstream.Message{
			message("a", "Pulling fs layer"), message("a", "Download complete"), message("a", "Extracting", 7, 7), message("a", "Pull complete"),
		}, [][2]int64{{7, 7}}},
		{"a length that the registry does not send", []jsonstream.Message{
			message("a", "Downloading", 10, -1), message("a", "Downloading", 20, -1), message("a", "Extracting", 5, 30), message("a", "Pull complete"),
		}, [][2]int64{{10, 0}, {20, 0}, {30, 30}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := reports(c.messages)[1:]
			want := make([]engine.Progress, len(c.want))
			for i, counts := range c.want {
				want[i] = engine.Progress{Image: "image", Current: counts[0], Total: counts[1]}
			}
			assert.True(t, slices.Equal(got, want), "reports %v\n   want %v", got, want)
		})
	}
}

func reports(messages []jsonstream.Message) []engine.Progress {
	var reports []engine.Progress
	layers := newLayers("image", func(p engine.Progress) { reports = append(reports, p) })
	for _, m := range messages {
		layers.see(m)
	}
	layers.done()
	return reports
}

// Whatever the engine says, in whatever order, the sums stay sane and the end
// is the whole.
func TestProgressStaysSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		statuses := []string{"Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete", "Extracting", "Pull complete", "Already exists", "Retrying in 5 seconds", ""}
		sizes := map[string]int64{"a": 10, "b": 2000, "c": 0}
		messages := rapid.SliceOf(rapid.Custom(func(t *rapid.T) jsonstream.Message {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "layer")
			status := rapid.SampledFrom(statuses).Draw(t, "status")
			return message(id, status, rapid.Int64Range(0, sizes[id]).Draw(t, "current"), sizes[id])
		})).Draw(t, "messages")
		all := reports(messages)
		for i, p := range all {
			require.False(t, p.Current < 0 || p.Total < 0 || p.Total != 0 && p.Current > p.Total, "report %d is out of bounds: %+v", i, p)
			require.False(t, i > 0 && p == all[i-1], "report %d says nothing new: %+v", i, p)
		}
		if last := all[len(all)-1]; last.Current != last.Total {
			t.Fatalf("the last report is not the whole: %+v", last)
		}
	})
}
