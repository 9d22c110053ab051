// Package metrics tells Prometheus what a server does, and what the log says of the pipelines,
// environments and build groups at the moment it is asked. Nothing of it is kept: a server
// that was started just now tells the same of them as one that runs for a year.
package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// Metrics are those of one server. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	events   *prometheus.CounterVec
	failures *prometheus.CounterVec
	requests *prometheus.HistogramVec
	begun    *prometheus.CounterVec
	ended    *prometheus.HistogramVec
}

// New are metrics of a server beside those of a log, which is read whenever they are asked
// for.
func New(log deploylog.Log, version string, now func() time.Time) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deployster_events_total", Help: "Events of what this server controls, by the kind of their target, since it started.",
		}, []string{"kind", "event"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deployster_step_retries_total", Help: "Steps of pipelines that failed and are tried again, since the server started.",
		}, []string{"pipeline"}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "deployster_http_request_duration_seconds", Help: "How long answers to requests took; streams of events last as long as they are read.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2, 10},
		}, []string{"method", "code"}),
		begun: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deployster_runs_begun_total", Help: "Runs and plans that this server has begun for others, since it started.",
		}, []string{"command"}),
		ended: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "deployster_run_duration_seconds", Help: "How long runs and plans took that this server has carried out for others, by how they ended.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 3600},
		}, []string{"command", "outcome"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "deployster_info", Help: "The version of the server.", ConstLabels: prometheus.Labels{"version": version}})
	info.Set(1)
	m.registry.MustRegister(info, m.events, m.failures, m.requests, m.begun, m.ended, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newLogged(log, now))
	return m
}

// Recorded counts an event.
func (m *Metrics) Recorded(e deploylog.Event) {
	m.events.WithLabelValues(e.Target.Kind(), e.Name).Inc()
}

// Retried counts a step of a pipeline that is tried again.
func (m *Metrics) Retried(pipeline string) { m.failures.WithLabelValues(pipeline).Inc() }

// RunBegun counts a run that somebody asked the server for.
func (m *Metrics) RunBegun(command string) { m.begun.WithLabelValues(command).Inc() }

// RunEnded measures a run that has ended.
func (m *Metrics) RunEnded(command, outcome string, took time.Duration) {
	m.ended.WithLabelValues(command, outcome).Observe(took.Seconds())
}

// Handler answers with all metrics in the format of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}

// Measure has the requests to a handler measured.
func (m *Metrics) Measure(h http.Handler) http.Handler {
	return promhttp.InstrumentHandlerDuration(m.requests, h)
}

// logged are the metrics that follow from the log.
type logged struct {
	pipelines    *query.Pipelines
	promotions   query.Promotions
	environments *query.Environments
	builds       *query.Builds
}

func newLogged(log deploylog.Log, now func() time.Time) *logged {
	e := query.NewEnvironments(log, now)
	return &logged{pipelines: query.NewPipelines(log, now), promotions: query.NewPromotions(log, now, e), environments: e, builds: query.NewBuilds(log, now)}
}

var (
	head = prometheus.NewDesc("deployster_log_events", "Events in the deployment log.", nil, nil)

	inProgress = prometheus.NewDesc("deployster_pipeline_revisions_in_progress", "Revisions that go through a pipeline.", []string{"pipeline"}, nil)
	paused     = prometheus.NewDesc("deployster_pipeline_pauses", "Pauses of a pipeline and its stages, and holds of promotion, that somebody has to end.", []string{"pipeline"}, nil)
	failed     = prometheus.NewDesc("deployster_pipeline_promotions_failed", "Stages of a pipeline that promotes by observed state whose last promotion failed.", []string{"pipeline"}, nil)

	status  = prometheus.NewDesc("deployster_environment_status", "1 of the status that an environment has.", []string{"environment", "status"}, nil)
	desired = prometheus.NewDesc("deployster_environment_tasks_desired", "Tasks that the active revision of an environment should have.", []string{"environment"}, nil)
	current = prometheus.NewDesc("deployster_environment_tasks_healthy", "Healthy tasks of the active revision of an environment.", []string{"environment"}, nil)

	groups = prometheus.NewDesc("deployster_build_groups", "Build groups that have not ended, by their state.", []string{"state"}, nil)
	jobs   = prometheus.NewDesc("deployster_build_jobs", "Jobs of the build groups that have not ended, by their state.", []string{"state"}, nil)
)

// Describe implements prometheus.Collector.
func (l *logged) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{head, inProgress, paused, failed, status, desired, current, groups, jobs} {
		to <- d
	}
}

// readTime bounds how long the log is read for one answer.
const readTime = 10 * time.Second

// Collect implements prometheus.Collector.
func (l *logged) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	for _, follow := range []func(context.Context, int64) error{l.pipelines.Follow, l.environments.Follow, l.promotions.Follow, l.builds.Follow} {
		if err := follow(ctx, 0); err != nil {
			to <- prometheus.NewInvalidMetric(head, err)
			return
		}
	}
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(head, int(l.pipelines.Head()))
	rows, _ := l.pipelines.List()
	for _, p := range rows {
		gauge(inProgress, len(p.InProgress), p.Name)
		gauge(paused, len(p.Pauses), p.Name)
	}
	if err := l.promoting(gauge); err != nil {
		to <- prometheus.NewInvalidMetric(inProgress, err)
		return
	}
	for _, e := range l.environments.List("") {
		gauge(status, 1, e.Name, string(e.Status))
		gauge(desired, e.Desired, e.Name)
		gauge(current, e.Current, e.Name)
	}
	inGroups, inJobs := map[string]int{}, map[string]int{}
	for _, g := range l.builds.Groups() {
		if g.State.Ended() {
			continue
		}
		inGroups[string(g.State)]++
		for state, n := range g.Counts {
			inJobs[string(state)] += n
		}
	}
	for state, n := range inGroups {
		gauge(groups, n, state)
	}
	for state, n := range inJobs {
		gauge(jobs, n, state)
	}
}

// promoting are the pipelines that promote by observed state.
func (l *logged) promoting(gauge func(d *prometheus.Desc, value int, labels ...string)) error {
	rows, err := l.promotions.List()
	if err != nil {
		return err
	}
	for _, row := range rows {
		report, err := l.promotions.Report(row.Name)
		if err != nil {
			return err
		}
		holds, failures := 0, 0
		if report.Stopped != nil {
			holds++
		}
		for _, s := range report.Stages {
			if s.Hold != nil {
				holds++
			}
			if s.Promotion != nil && s.Promotion.Status == promotion.Failed {
				failures++
			}
		}
		gauge(inProgress, len(row.InProgress), row.Name)
		gauge(paused, holds, row.Name)
		gauge(failed, failures, row.Name)
	}
	return nil
}
