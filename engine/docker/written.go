package docker

import (
	"context"
	"errors"

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
	for _, item := range listed.Items {
		bytes += item.SizeRw
	}
	return bytes, about.Info.DockerRootDir, nil
}
