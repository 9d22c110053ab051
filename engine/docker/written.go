package docker

import (
	"context"
	"errors"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
)

var _ engine.Measurer = (*Engine)(nil)

// Written implements engine.Measurer.
func (e *Engine) Written(ctx context.Context, labels map[string]string) (bytes int64, dir string, err error) {
	if !e.endpoint.local() {
		return 0, "", errors.New("measure containers: the engine is on another machine")
	}
	about, err := e.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return 0, "", e.wrap("ask where its containers are", err)
	}
	listed, err := e.client.ContainerList(ctx, client.ContainerListOptions{All: true, Size: true, Filters: having(labels)})
	if err != nil {
		return 0, "", e.wrap("measure containers", err)
	}
	volumes := map[string]bool{}
	for _, item := range listed.Items {
		bytes += item.SizeRw
		for _, m := range item.Mounts {
			if m.Type == mount.TypeVolume {
				volumes[m.Name] = true
			}
		}
	}
	of, err := e.volumeBytes(ctx, volumes)
	if err != nil {
		return 0, "", err
	}
	return bytes + of, about.Info.DockerRootDir, nil
}

// volumeBytes is how much is in volumes: those that an image declares are not in the layer of its
// container. The engine can only be asked about all that there are, so it is only where it must.
func (e *Engine) volumeBytes(ctx context.Context, names map[string]bool) (bytes int64, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	usage, err := e.client.DiskUsage(ctx, client.DiskUsageOptions{Volumes: true, Verbose: true})
	if err != nil {
		return 0, e.wrap("measure volumes", err)
	}
	for _, v := range usage.Volumes.Items {
		if names[v.Name] && v.UsageData != nil {
			bytes += max(0, v.UsageData.Size) // -1 is that it is not known
		}
	}
	return bytes, nil
}
