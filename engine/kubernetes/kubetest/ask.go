package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// Namespace makes a namespace for a test, whose Pods must keep to a level of the Pod Security
// Standards; "" is none.
func (c *Cluster) Namespace(t testing.TB, level string) string {
	t.Helper()
	name := "test-" + strings.ToLower(rand.Text())
	labels := map[string]string{}
	if level != "" {
		labels["pod-security.kubernetes.io/enforce"] = level
	}
	c.Create(t, "/api/v1/namespaces", map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": labels},
	})
	return name
}

// Create makes an object as the administrator, at the path of the API for those of its kind.
func (c *Cluster) Create(t testing.TB, path string, object any) {
	t.Helper()
	c.Ask(t, http.MethodPost, path, object)
}

// Ask asks the API server as the administrator, and returns its answer.
func (c *Cluster) Ask(t testing.TB, method, path string, object any) []byte {
	t.Helper()
	answer, err := c.ask(method, path, object)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (c *Cluster) ask(method, path string, object any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	response, err := c.request(ctx, method, path, object)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}

// request returns an answer that is no failure.
func (c *Cluster) request(ctx context.Context, method, path string, object any) (*http.Response, error) {
	var body io.Reader
	if object != nil {
		encoded, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Server+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	client := http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, //nolint:gosec // it is on this machine
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		answer, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return response, nil
}

// Kubeconfig writes the file of a user with a token and a namespace.
func Kubeconfig(t testing.TB, file, server, token, namespace string) {
	t.Helper()
	encoded, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{"server": server, "insecure-skip-tls-verify": true}}},
		"users":    []any{map[string]any{"name": "test", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": "test", "namespace": namespace}}},
	})
	if err == nil {
		err = os.WriteFile(file, encoded, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
