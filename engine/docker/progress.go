package docker

import (
	"github.com/moby/moby/api/types/jsonstream"

	"github.com/deployster-go/deployster/engine"
)

// layers adds the reports about single layers up to one about the image.
type layers struct {
	image  string
	report func(engine.Progress)
	byID   map[string]*layer
	last   engine.Progress
}

// layer is one layer's download. An engine reports no size before a layer's
// download has started, and for a small one never.
type layer struct {
	current, total int64
	complete       bool
}

// newLayers reports at once, so that the user sees what is being waited for.
func newLayers(image string, report func(engine.Progress)) *layers {
	if report == nil {
		report = func(engine.Progress) {}
	}
	l := &layers{image: image, report: report, byID: map[string]*layer{}, last: engine.Progress{Image: image}}
	report(l.last)
	return l
}

func (l *layers) see(message jsonstream.Message) {
	switch message.Status {
	case "Pulling fs layer", "Waiting":
		l.at(message.ID)
	case "Downloading":
		at := l.at(message.ID)
		if message.Progress != nil {
			at.current, at.total = message.Progress.Current, max(message.Progress.Total, 0)
		}
	case "Already exists":
		at := l.at(message.ID)
		at.current, at.total, at.complete = 0, 0, true
	case "Verifying Checksum", "Download complete", "Extracting", "Pull complete":
		at := l.at(message.ID)
		// "Extracting" counts on its own, in the same bytes.
		if message.Progress != nil && message.Progress.Total > 0 && at.total == 0 {
			at.total = message.Progress.Total
		}
		at.current, at.complete = at.total, true
	default:
		return
	}
	l.publish()
}

// done reports the end: all layers are complete.
func (l *layers) done() {
	for _, at := range l.byID {
		at.current, at.complete = at.total, true
	}
	l.publish()
}

func (l *layers) at(id string) *layer {
	if l.byID[id] == nil {
		l.byID[id] = &layer{}
	}
	return l.byID[id]
}

// publish reports the sums if they changed. The total is unknown as long as one
// layer's is.
func (l *layers) publish() {
	now := engine.Progress{Image: l.image}
	known := true
	for _, at := range l.byID {
		now.Current += at.current
		now.Total += at.total
		known = known && (at.complete || at.total > 0)
	}
	if !known {
		now.Total = 0
	}
	if now != l.last {
		l.last = now
		l.report(now)
	}
}
