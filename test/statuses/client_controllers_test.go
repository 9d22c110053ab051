//go:build controllers

package statuses

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
)

type fields = map[string]any

// client asks the API server as the administrator.
type client struct {
	*kubetest.Cluster
	http *http.Client
}

func newClient(c *kubetest.Cluster) *client {
	return &client{c, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 100}}}
}

func (c *client) ask(ctx context.Context, method, path, content string, object any) (*http.Response, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Server+path, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", content)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		said, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, said)
	}
	return response, nil
}

func (c *client) must(t testing.TB, method, path, content string, object any) fields {
	t.Helper()
	response, err := c.ask(t.Context(), method, path, content, object)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var live fields
	require.NoError(t, json.NewDecoder(response.Body).Decode(&live))
	return live
}

// apply makes an object as it is declared, or changes it to that.
func (c *client) apply(t testing.TB, path string, object fields) (live fields) {
	t.Helper()
	return c.must(t, http.MethodPatch, path+"?fieldManager=people&force=true", "application/apply-patch+yaml", object)
}

// patch changes some fields of an object; nil removes one.
func (c *client) patch(t testing.TB, path string, change fields) {
	t.Helper()
	c.must(t, http.MethodPatch, path+"?fieldManager=people", "application/merge-patch+json", change)
}

// follow calls seen with each write of an object, nil where it was removed, until ctx ends.
func (c *client) follow(ctx context.Context, object string, seen func(live fields, version string)) error {
	all, name := path.Split(object)
	return c.followAll(ctx, strings.TrimSuffix(all, "/"), "fieldSelector=metadata.name%3D"+name, func(_ string, live fields, version string) { seen(live, version) })
}

// followAll does that with all objects of a list that a selector selects.
func (c *client) followAll(ctx context.Context, list, selector string, seen func(name string, live fields, version string)) error {
	response, err := c.ask(ctx, http.MethodGet, list+"?watch=true&timeoutSeconds=3600&"+selector, "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	events := json.NewDecoder(response.Body)
	for {
		var event struct {
			Type   string
			Object fields
		}
		if err := events.Decode(&event); err != nil {
			return err
		}
		name, version := text(event.Object, "metadata", "name"), text(event.Object, "metadata", "resourceVersion")
		switch event.Type {
		case "ADDED", "MODIFIED":
			seen(name, event.Object, version)
		case "DELETED":
			seen(name, nil, version)
		default:
			return fmt.Errorf("watch %s: %s %v", list, event.Type, event.Object)
		}
	}
}
