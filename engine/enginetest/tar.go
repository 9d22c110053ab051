package enginetest

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// refsOf returns the names under which a docker-save tar holds images.
func refsOf(r io.Reader) ([]string, error) {
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the tar has no manifest.json")
		}
		if err != nil {
			return nil, fmt.Errorf("read the tar: %w", err)
		}
		if header.Name != "manifest.json" {
			continue
		}
		var manifests []struct{ RepoTags []string }
		if err := json.NewDecoder(archive).Decode(&manifests); err != nil {
			return nil, fmt.Errorf("read manifest.json: %w", err)
		}
		var refs []string
		for _, manifest := range manifests {
			refs = append(refs, manifest.RepoTags...)
		}
		if len(refs) == 0 {
			return nil, errors.New("the tar holds no named image")
		}
		return refs, nil
	}
}
