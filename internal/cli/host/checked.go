package host

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/kubernetes"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/inventory"
)

// checkedHost holds the answers of a host to host check. Programs read it: a field that is not known is left out.
type checkedHost struct {
	Name   string `json:"name"`
	Answer string `json:"answer,omitempty"` // the engine and its platform
	Error  string `json:"error,omitempty"`  // why it cannot be deployed to

	Engine   string `json:"engine,omitempty"`
	Version  string `json:"version,omitempty"`
	Platform string `json:"platform,omitempty"`
	Address  string `json:"address,omitempty"`
	EngineID string `json:"engine_id,omitempty"`
	Route    string `json:"route,omitempty"` // behind ssh: see docker.Engine.Route

	RoundTrip   *float64  `json:"round_trip_ms,omitempty"`
	Clock       *float64  `json:"clock_ahead_ms,omitempty"`
	ClockWithin *float64  `json:"clock_within_ms,omitempty"`
	Disk        *diskUsed `json:"disk,omitempty"`
	DiskUnknown string    `json:"disk_unknown,omitempty"` // why

	Changes []string `json:"changes"` // what should be changed, although it can be deployed to

	Cluster *kubernetes.Checked `json:"cluster,omitempty"` // of a host that is a namespace of one

	failure string // the Error in a few words
}

// diskUsed holds numbers of bytes.
type diskUsed struct {
	Used        int64 `json:"used"`
	Images      int64 `json:"images"`
	Containers  int64 `json:"containers"`
	Volumes     int64 `json:"volumes"`
	BuildCache  int64 `json:"build_cache"`
	Reclaimable int64 `json:"reclaimable"`
	Free        int64 `json:"free,omitempty"` // known only of this machine
	Size        int64 `json:"size,omitempty"`
}

func (f *checkedHost) fail(what string, err error) {
	f.failure, f.Error = what, strings.TrimPrefix(err.Error(), engine.ErrUnavailable.Error()+": ")
}

// describe fills in what every engine tells.
func (f *checkedHost) describe(on *work.Connection) {
	f.Engine, f.Version, f.Address = on.Info.Name, on.Info.Version, on.Info.Address
	f.Platform = on.Info.OS + "/" + on.Info.Arch
	f.Answer = fmt.Sprintf("%s %s, %s", f.Engine, f.Version, f.Platform)
}

// wrongPlatform reports whether the inventory lists other platforms than the engine has.
func (f *checkedHost) wrongPlatform(h inventory.Host) bool {
	fits := func(p string) bool { return p == f.Platform || strings.HasPrefix(p, f.Platform+"/") }
	if len(h.Platforms) == 0 || slices.ContainsFunc(h.Platforms, fits) {
		return false
	}
	f.fail("another platform", fmt.Errorf("it runs %s, and the inventory lists %s: correct its platforms or its address there", f.Platform, strings.Join(h.Platforms, ", ")))
	return true
}

// When a host should be changed.
const (
	clockApart = 2 * time.Second
	farAway    = 300 * time.Millisecond
	leastFree  = 0.05 // of the file system
	plenty     = 20 << 30
)

// tell fills in what a Docker Engine tells of itself.
func (f *checkedHost) tell(about docker.About) {
	milliseconds := func(d time.Duration) *float64 {
		ms := math.Round(float64(d.Microseconds())) / 1000
		return &ms
	}
	change := func(format string, args ...any) { f.Changes = append(f.Changes, fmt.Sprintf(format, args...)) }
	f.EngineID, f.RoundTrip, f.DiskUnknown = about.ID, milliseconds(about.RoundTrip), about.DiskUnknown
	if about.ClockKnown {
		f.Clock, f.ClockWithin = milliseconds(about.Clock), milliseconds(about.ClockWithin)
		if apart := about.Clock.Abs(); apart-about.ClockWithin > clockApart {
			way := "ahead of"
			if about.Clock < 0 {
				way = "behind"
			}
			change("its clock is %s %s that of this machine, so times of the log are wrong: run `timedatectl set-ntp true` on the one that is wrong", phrase.Took(apart), way)
		}
	}
	if about.RoundTrip > farAway {
		change("a request takes %s: run Deployster nearer to it, such as a server beside it (deployster serve)", phrase.Took(about.RoundTrip))
	}
	if strings.HasSuffix(f.Route, "docker command") {
		change("its sshd forwards no socket, so each connection starts a docker command there: set `AllowTcpForwarding yes` and `AllowStreamLocalForwarding yes` in its sshd_config")
	}
	for _, address := range about.Unencrypted {
		change("everyone who reaches %s owns it: remove that address from its dockerd, and use an ssh:// endpoint", address)
	}
	if u := about.Disk; u != nil {
		f.Disk = &diskUsed{Used: u.Used(), Images: u.Images, Containers: u.Containers, Volumes: u.Volumes, BuildCache: u.BuildCache, Reclaimable: u.Reclaimable, Free: u.Free, Size: u.Size}
		if u.Size > 0 && u.Free < plenty && float64(u.Free) < leastFree*float64(u.Size) {
			change("only %s of %s are free in %s: `docker system prune --all` there would free %s", phrase.Size(u.Free), phrase.Size(u.Size), u.Directory, phrase.Size(u.Reclaimable))
		}
	}
}

// noteShared says of hosts that are one engine that they are. Such an engine may have told only one
// of them what its disk is used for.
func noteShared(found []checkedHost) {
	names, disks := map[string][]string{}, map[string]*diskUsed{}
	for _, f := range found {
		if f.EngineID != "" {
			names[f.EngineID] = append(names[f.EngineID], f.Name)
			disks[f.EngineID] = cmp.Or(f.Disk, disks[f.EngineID])
		}
	}
	for i, f := range found {
		if disk := disks[f.EngineID]; disk != nil {
			found[i].Disk, found[i].DiskUnknown = disk, ""
		}
		if all := names[f.EngineID]; len(all) > 1 && all[0] == f.Name {
			found[i].Changes = append(found[i].Changes, fmt.Sprintf("it is the same engine as %s, and the slots of each count: keep one of them, or correct an address", phrase.First(all[1:], 3)))
		}
	}
}

// table returns the rows of what was found, and which columns may be left out. A column of which
// nothing is known is not there.
func table(found []checkedHost) (rows [][]string, extra []int) {
	columns := []struct {
		head  string
		of    func(checkedHost) string
		extra bool
	}{
		{"NAME", func(f checkedHost) string { return f.Name }, false},
		{"ANSWER", checkedHost.mark, false},
		{"PING", checkedHost.ping, false},
		{"CLOCK", checkedHost.clock, false},
		{"DISK", checkedHost.disk, false},
		{"ROUTE", func(f checkedHost) string { return strings.TrimPrefix(f.Route, "ssh, ") }, true},
	}
	rows = make([][]string, 1+len(found))
	for i, c := range columns {
		known := func(f checkedHost) bool { return c.of(f) != "" }
		if i > 1 && !slices.ContainsFunc(found, known) {
			continue
		}
		if c.extra {
			extra = append(extra, len(rows[0]))
		}
		rows[0] = append(rows[0], c.head)
		for i, f := range found {
			rows[1+i] = append(rows[1+i], output.Dash(c.of(f)))
		}
	}
	return rows, extra
}

func (f checkedHost) mark() string {
	if f.Error != "" {
		return "✘ " + f.failure
	}
	return "✔ " + f.Answer
}

func (f checkedHost) ping() string {
	switch {
	case f.RoundTrip == nil:
		return ""
	case *f.RoundTrip < 10:
		return fmt.Sprintf("%.1fms", *f.RoundTrip)
	default:
		return fmt.Sprintf("%.0fms", *f.RoundTrip)
	}
}

func (f checkedHost) clock() string {
	if f.Clock == nil {
		return ""
	}
	ahead := time.Duration(*f.Clock * float64(time.Millisecond))
	switch {
	case ahead.Abs() < 50*time.Millisecond:
		return "0.0s"
	case ahead < 0:
		return "-" + phrase.Took(-ahead)
	default:
		return "+" + phrase.Took(ahead)
	}
}

func (f checkedHost) disk() string {
	if f.Disk == nil {
		return ""
	}
	return phrase.Size(f.Disk.Used)
}

// errorLines is how many lines of an error are shown. Programs read all of it.
const errorLines = 2

// remarks returns what is wrong with hosts, and what should be changed. Hosts of which the same
// is to be said share a line.
func remarks(found []checkedHost) (lines []string) {
	about := map[string][]string{}
	var texts []string
	add := func(name, text string) {
		if about[text] == nil {
			texts = append(texts, text)
		}
		about[text] = append(about[text], name)
	}
	for _, f := range found {
		if f.Error != "" {
			all := strings.Split(strings.TrimSpace(f.Error), "\n")
			add("✘ "+f.Name, strings.Join(all[:min(len(all), errorLines)], "\n  "))
		}
	}
	for _, f := range found {
		for _, text := range f.Changes {
			add("! "+f.Name, text)
		}
	}
	for _, text := range texts {
		names := about[text]
		for i := range names[1:] {
			_, names[1+i], _ = strings.Cut(names[1+i], " ")
		}
		lines = append(lines, phrase.First(names, 3)+": "+text)
	}
	return lines
}
