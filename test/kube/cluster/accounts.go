package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

// attendAccounts gives each namespace what the controllers of a cluster give it: the service
// account of Pods that name none, and the certificate by which Pods know the API server. Pods wait
// for these.
func (p *place) attendAccounts() {
	done := map[string]bool{}
	for {
		var all struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		if p.ask(http.MethodGet, "/api/v1/namespaces", nil, &all) == nil {
			for _, namespace := range all.Items {
				name := namespace.Metadata.Name
				done[name] = done[name] || p.equip(name)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// equip reports whether a namespace has everything.
func (p *place) equip(namespace string) bool {
	authority, err := os.ReadFile(p.authority())
	if err != nil {
		return false
	}
	object := func(kind, name string, more map[string]any) map[string]any {
		all := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}
		for key, value := range more {
			all[key] = value
		}
		return all
	}
	in := "/api/v1/namespaces/" + namespace
	certificates := object("ConfigMap", "kube-root-ca.crt", map[string]any{"data": map[string]string{"ca.crt": string(authority)}})
	for path, content := range map[string]any{in + "/serviceaccounts": object("ServiceAccount", "default", nil), in + "/configmaps": certificates} {
		if p.ask(http.MethodPost, path, content, nil) != nil {
			return false
		}
	}
	return true
}

// authority is the file with the certificate that vouches for the API server.
func (p *place) authority() string { return p.file("certificates/apiserver.crt") }

// client trusts the API server, which has just made its certificate.
func (p *place) client() *http.Client {
	p.once.Do(func() {
		p.http = &http.Client{
			Timeout:   5 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // see above
		}
	})
	return p.http
}

// ask asks the API server as the administrator. What is there already is made.
func (p *place) ask(method, path string, content, into any) error {
	encoded, err := json.Marshal(content)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, p.server()+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+p.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client().Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= http.StatusMultipleChoices && response.StatusCode != http.StatusConflict {
		return fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
