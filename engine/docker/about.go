package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// About holds what an engine tells of itself, and how good its connection is.
type About struct {
	ID        string        // that of Identity; "" is not known
	RoundTrip time.Duration // of a request, the median of a few

	// Clock is how far the clock of the engine is ahead of this machine's, give or take
	// ClockWithin, which is half of the time that the answer took. ClockKnown reports
	// whether the engine told its time.
	Clock, ClockWithin time.Duration
	ClockKnown         bool

	// Unencrypted is the addresses at which the engine says that everybody reaches it.
	Unencrypted []string

	// Disk is what the engine's images, containers, volumes and build cache take. It is nil
	// for the reason that DiskUnknown tells.
	Disk        *DiskUsage
	DiskUnknown string
}

// DiskUsage is in bytes. The API of an engine does not tell how much is free, so that Free and
// Size are known only of the file system of an engine on this machine; they are 0 for others.
type DiskUsage struct {
	Images, Containers, Volumes, BuildCache int64

	Reclaimable int64 // by docker system prune --all, which leaves volumes

	Directory  string // where the engine keeps all of it
	Free, Size int64
}

// Used returns the sum of all kinds.
func (u DiskUsage) Used() int64 { return u.Images + u.Containers + u.Volumes + u.BuildCache }

const (
	pings    = 3
	diskTime = 3 * time.Second // an engine adds up every file of its volumes
)

// About asks an engine for what `host check` tells. It fails only if the engine does not answer
// any more: what a proxy forbids, or what takes too long, is left out.
func (e *Engine) About(ctx context.Context, now func() time.Time) (About, error) {
	var about About
	var took []time.Duration
	for range pings {
		begun := now()
		if _, err := e.client.Ping(ctx, client.PingOptions{}); err != nil {
			return about, e.unreachable("measure its round trip", err)
		}
		took = append(took, now().Sub(begun))
	}
	slices.Sort(took)
	about.RoundTrip = took[len(took)/2]

	begun := now()
	found, err := e.client.Info(ctx, client.InfoOptions{})
	ended := now()
	switch {
	case errdefs.IsPermissionDenied(err):
		about.DiskUnknown = "a proxy forbids the question"
		return about, nil
	case err != nil:
		return about, e.wrap("ask for its clock", err)
	}
	info := found.Info
	if info.ID != "" {
		about.ID = strings.Join([]string{info.ID, info.Name, info.DockerRootDir}, " ")
	}
	if told, err := time.Parse(time.RFC3339Nano, info.SystemTime); err == nil {
		about.ClockWithin = ended.Sub(begun) / 2
		about.Clock, about.ClockKnown = told.Sub(begun.Add(about.ClockWithin)), true
	}
	for _, warning := range info.Warnings {
		if _, rest, is := strings.Cut(warning, "API is accessible on "); is && strings.Contains(warning, "without encryption") {
			address, _, _ := strings.Cut(rest, " ")
			about.Unencrypted = append(about.Unencrypted, address)
		}
	}
	about.Disk, about.DiskUnknown = e.diskUsage(ctx)
	if host, err := os.Hostname(); about.Disk != nil && err == nil && e.endpoint.local() && info.Name == host {
		about.Disk.Directory = info.DockerRootDir
		about.Disk.Free, about.Disk.Size = fileSystem(info.DockerRootDir)
	}
	return about, nil
}

// diskUsage asks an engine what its disk is used for; unknown says why there is no answer.
func (e *Engine) diskUsage(ctx context.Context) (usage *DiskUsage, unknown string) {
	bounded, cancel := context.WithTimeout(ctx, diskTime)
	defer cancel()
	all := client.DiskUsageOptions{Containers: true, Images: true, BuildCache: true, Volumes: true}
	found, err := e.client.DiskUsage(bounded, all)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Sprintf("the engine had not added it up after %s", diskTime)
	case errdefs.IsPermissionDenied(err):
		return nil, "a proxy forbids the question"
	case err != nil && strings.Contains(err.Error(), "already running"):
		return nil, "another client had asked the engine, which answers one at a time"
	case err != nil:
		return nil, strings.TrimSpace(err.Error())
	}
	return &DiskUsage{
		Images: found.Images.TotalSize, Containers: found.Containers.TotalSize, Volumes: found.Volumes.TotalSize, BuildCache: found.BuildCache.TotalSize,
		Reclaimable: found.Images.Reclaimable + found.Containers.Reclaimable + found.BuildCache.Reclaimable,
	}, ""
}

// fileSystem returns how many bytes of the file system of a directory are free for its user, and
// how many it has; 0 are not known.
func fileSystem(directory string) (free, size int64) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(directory, &s); err != nil {
		return 0, 0
	}
	block := int64(s.Bsize)
	return int64(s.Bavail) * block, int64(s.Blocks) * block
}
