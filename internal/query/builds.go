package query

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/deploylog"
)

// Builds answers questions about the build groups of a log, as they were right after the
// event up to which it is followed.
type Builds struct {
	*builds.Builds
	Log deploylog.Log

	// NoInventory is why it is not known which workers there are, where the present is asked
	// for all the same; nil is that it is known, or that the past is asked for.
	NoInventory error

	Inventory string // that the workers are of, where the present is asked for; "" is none

	last time.Time // of the newest event
}

// NewBuilds knows nothing until it is told to Follow.
func NewBuilds(log deploylog.Log, now func() time.Time) *Builds {
	b := &Builds{Log: log}
	b.Builds = builds.New(log, now, func(last deploylog.Event) { b.last = last.CreatedAt })
	return b
}

// Here answers as it is here at present, with workers that are of an inventory, "" being none,
// or why it is not known which there are.
func (b *Builds) Here(inventory string, none error) *Builds {
	return &Builds{Builds: b.Builds, Log: b.Log, Inventory: inventory, NoInventory: none}
}

// Check refuses what names no group.
func (b *Builds) Check(text string) error {
	_, err := b.ID(text)
	return err
}

// ID is that of the group that is named by it, or of the newest that builds what has the
// name.
func (b *Builds) ID(text string) (id string, err error) {
	err = b.State(func(s *build.State) error {
		id, err = s.Find(text)
		return err
	})
	return id, err
}

// Job is a job of a group, named by its number or by what it builds.
func (b *Builds) Job(group, text string) (j build.JobReport, err error) {
	err = b.State(func(s *build.State) error {
		id, err := s.Find(group)
		if err != nil {
			return err
		}
		number, err := s.FindJob(id, text)
		if err != nil {
			return err
		}
		j, err = s.Job(id, number)
		return err
	})
	return j, err
}

// Jobs are those of a group that are in one of the states, with how far the group is; none
// are all.
func (b *Builds) Jobs(group string, states ...transition.Job) (g build.Summary, jobs []build.JobReport, err error) {
	err = b.State(func(s *build.State) error {
		id, err := s.Find(group)
		if err != nil {
			return err
		}
		r, err := s.Report(id)
		if err != nil {
			return err
		}
		g = r.Summary
		jobs, err = s.Jobs(id, states...)
		return err
	})
	return g, append([]build.JobReport{}, jobs...), err
}

// Groups are those that are in one of the states, the oldest first; none are all.
func (b *Builds) Groups(states ...transition.Group) (groups []build.Summary) {
	_ = b.State(func(s *build.State) error {
		groups = slices.DeleteFunc(slices.Clone(s.Groups()), func(g build.Summary) bool {
			return len(states) > 0 && !slices.Contains(states, g.State)
		})
		return nil
	})
	return append([]build.Summary{}, groups...)
}

// Current are the ids of the groups that have not ended; where all have, of the newest.
func (b *Builds) Current() (ids []string) {
	all := b.Groups()
	for _, g := range all {
		if !g.State.Ended() {
			ids = append(ids, g.ID)
		}
	}
	if len(ids) == 0 && len(all) > 0 {
		ids = append(ids, all[len(all)-1].ID)
	}
	return ids
}

// maxRoots is how many jobs that failed a status has.
const maxRoots = 100

// BuildStatus is how far a group is, what keeps it, and when it will have ended.
type BuildStatus struct {
	build.Report
	Failed     []FailedJob     `json:"failed"`
	MoreFailed int             `json:"more_failed,omitempty"` // beyond those
	Reasons    []reason.Reason `json:"reasons"`               // of the group itself
	Forecast   *build.Forecast `json:"forecast,omitempty"`    // of one that has not ended
}

// FailedJob is a job that failed itself.
type FailedJob struct {
	build.JobReport
	Dependents int `json:"dependents,omitempty"` // jobs that are not built because of it
}

// BuildStatus is that of a group. workers is nil where the past is asked for, or with
// NoInventory.
func (b *Builds) BuildStatus(group string, workers build.Workers) (status BuildStatus, err error) {
	now := b.Moment(workers)
	err = b.State(func(s *build.State) error {
		id, err := s.Find(group)
		if err != nil {
			return err
		}
		if status.Report, err = s.Report(id); err != nil {
			return err
		}
		if status.Failed, err = failedJobs(s, status.Report); err != nil {
			return err
		}
		status.MoreFailed = max(0, len(status.Failed)-maxRoots)
		status.Failed = status.Failed[:len(status.Failed)-status.MoreFailed]
		status.Running = append([]build.JobReport{}, status.Running...)
		for i := range status.Running {
			status.Running[i].Uses = nil
		}
		status.Reasons = []reason.Reason{}
		known := b.foreign(status.Report) == ""
		for _, r := range s.Explain(record.Group(id), now, workers) {
			if r.Target == string(record.Group(id)) && (known || r.Code != reason.NoWorker) {
				status.Reasons = append(status.Reasons, r)
			}
		}
		if workers != nil && known && !status.State.Ended() && status.State != transition.Canceling {
			f, err := s.Forecast(id, now, slots(workers))
			if err != nil {
				return err
			}
			status.Forecast = &f
		}
		return nil
	})
	if err == nil && b.present(workers) && !status.State.Ended() {
		status.Reasons = slices.Concat(b.unattended(record.Group(status.ID)), b.elsewhere(status.Report), status.Reasons)
	}
	return status, err
}

// failedJobs are the jobs of a group that failed themselves, those first because of which
// most are not built.
func failedJobs(s *build.State, r build.Report) ([]FailedJob, error) {
	because := map[int]int{}
	if r.Counts[transition.DependencyFailed] > 0 {
		lost, err := s.Jobs(r.ID, transition.DependencyFailed)
		if err != nil {
			return nil, err
		}
		for _, j := range lost {
			because[j.Because]++
		}
	}
	all := []FailedJob{}
	for _, j := range r.Failed {
		j.Uses = nil
		all = append(all, FailedJob{j, because[j.Number]})
	}
	slices.SortStableFunc(all, func(a, b FailedJob) int { return cmp.Compare(b.Dependents, a.Dependents) })
	return all, nil
}

// present reports whether the present is asked for.
func (b *Builds) present(workers build.Workers) bool { return workers != nil || b.NoInventory != nil }

// Moment is the present, where that is asked for, else when the last event was.
func (b *Builds) Moment(workers build.Workers) time.Time {
	if !b.present(workers) {
		return b.last
	}
	return b.Now()
}

// slots is how many jobs are built at once at a place.
func slots(workers build.Workers) func(record.Place) int {
	return func(p record.Place) (n int) {
		for _, w := range workers(p) {
			n += w.Slots
		}
		return n
	}
}

// unattended says that nobody is at work, and that it is not known which workers there are,
// where that is so.
func (b *Builds) unattended(t deploylog.Target) (all []reason.Reason) {
	if b.NoInventory != nil {
		all = append(all, reason.Reason{
			Target: string(t), Code: reason.NoInventory, Message: "it is not known which workers there are: " + b.NoInventory.Error(), Change: "an inventory that can be read",
		})
	}
	const remedy = "deployster build run"
	r := reason.Reason{Target: string(t), Code: reason.NoDispatcher, Change: remedy}
	switch silent := ""; {
	case !b.Controlled(record.Entity):
		r.Message = "nobody is at work on build groups"
	default:
		if silent = b.Silent(record.Entity); silent == "" {
			return all
		}
		r.Message = "who is at work on build groups makes no progress: " + silent
	}
	return append([]reason.Reason{r}, all...)
}

// foreign is why it is not known here which workers a group has: they are those of another
// inventory. "" is that they are not.
func (b *Builds) foreign(r build.Report) string {
	of := r.Inventory()
	switch {
	case of == "", of == b.Inventory, b.NoInventory != nil:
		return ""
	case b.Inventory == "":
		return fmt.Sprintf("its workers are of the inventory %s, and there is none here", of)
	default:
		return fmt.Sprintf("its workers are of the inventory %s, and the one here is %s", of, b.Inventory)
	}
}

// elsewhere says of a group that its workers are those of another inventory, where that is so.
func (b *Builds) elsewhere(r build.Report) []reason.Reason {
	why := b.foreign(r)
	if why == "" {
		return nil
	}
	change := "deployster build run with that inventory"
	if b.Controlled(record.Entity) {
		change += ", unless that is at work already; deployster build status with it says how far its workers are"
	}
	return []reason.Reason{{Target: string(record.Group(r.ID)), Code: reason.OtherInventory, Message: why, Change: change}}
}

// Forecast is when a group will have ended.
func (b *Builds) Forecast(group string, workers build.Workers) (f build.Forecast, err error) {
	unknown := ""
	err = b.State(func(s *build.State) error {
		id, err := s.Find(group)
		if err != nil {
			return err
		}
		r, err := s.Report(id)
		if err != nil {
			return err
		}
		unknown = b.foreign(r)
		if workers == nil {
			workers = func(record.Place) []build.Worker { return nil }
		}
		f, err = s.Forecast(id, b.Now(), slots(workers))
		return err
	})
	if b.NoInventory != nil {
		unknown = b.NoInventory.Error()
	}
	if unknown != "" && (f.Slots == 0 || b.NoInventory != nil) {
		f.Unknown, f.End, f.Unserved = unknown, time.Time{}, nil
	}
	return f, err
}

// BuildReason is why a job does not move, and which others do not for a like one.
type BuildReason struct {
	reason.Reason
	Others record.Numbers `json:"others,omitempty"` // jobs of its group
}

// Explain is why what is at or below a target does not move; "" is all groups. Of many jobs
// that do not move for like reasons one stands for the others, unless all are asked for.
func (b *Builds) Explain(t deploylog.Target, workers build.Workers, all bool) (reasons []BuildReason, err error) {
	now := b.Moment(workers)
	reasons = []BuildReason{}
	open, others, foreign := false, []reason.Reason{}, map[string]bool{}
	err = b.State(func(s *build.State) error {
		if id, number, ok := record.Parse(t); ok {
			r, err := s.Report(id)
			if err == nil && number > 0 {
				_, err = s.Job(id, number)
			}
			if err != nil {
				return err
			}
			if open = !r.State.Ended(); open {
				others, foreign[id] = b.elsewhere(r), b.foreign(r) != ""
			}
		} else {
			for _, g := range s.Groups() {
				if g.State.Ended() {
					continue
				}
				open = true
				if r, err := s.Report(g.ID); err == nil {
					others, foreign[g.ID] = append(others, b.elsewhere(r)...), b.foreign(r) != ""
				}
			}
		}
		said := slices.DeleteFunc(s.Explain(t, now, workers), func(r reason.Reason) bool {
			id, _, _ := record.Parse(deploylog.Target(r.Target))
			return foreign[id] && r.Code == reason.NoWorker // which is not known here
		})
		reasons = alikeJobs(said, all)
		return nil
	})
	if err == nil && b.present(workers) && open {
		for _, r := range slices.Backward(append(b.unattended(record.Entity), others...)) {
			reasons = slices.Insert(reasons, 0, BuildReason{Reason: r})
		}
	}
	return reasons, err
}

// saidAlike is how many jobs that do not move for like reasons are named one by one.
func saidAlike(c reason.Code) int {
	switch c {
	case reason.JobFailed:
		return 10
	case reason.InProgress:
		return 5
	default:
		return 1
	}
}

// alikeJobs has one reason stand for those of other jobs of a group that are like it.
func alikeJobs(list []reason.Reason, all bool) []BuildReason {
	type key struct {
		group string
		code  reason.Code
		place string // what it says of who serves one
	}
	said, last := map[key]int{}, map[key]int{}
	folded := []BuildReason{}
	for _, r := range list {
		id, number, _ := record.Parse(deploylog.Target(r.Target))
		k := key{group: id, code: r.Code}
		if r.Code == reason.NoWorker || r.Code == reason.WorkersBusy {
			k.place = r.Message
		}
		if number == 0 || all || said[k] < saidAlike(r.Code) {
			said[k]++
			last[k] = len(folded)
			folded = append(folded, BuildReason{Reason: r})
			continue
		}
		first := &folded[last[k]]
		first.Others = append(first.Others, number)
	}
	for i := range folded {
		slices.Sort(folded[i].Others)
	}
	return folded
}
