package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// registryPort is where nodes expect a registry on this machine, and at the next one another, which
// wants to know who asks.
const registryPort = 5000

// port is that of the API server. The next one is that of a second cluster.
const port = 6443

func (p *place) registry() string { return fmt.Sprintf("%s:%d", p.host(), registryPort) }
func (p *place) private() string  { return fmt.Sprintf("%s:%d", p.host(), registryPort+1) }
func (p *place) server() string   { return fmt.Sprintf("https://%s:%d", p.address(), port) }
func (p *place) second() string   { return fmt.Sprintf("https://%s:%d", p.address(), port+1) }

// first are the programs of a cluster that need no others.
func (p *place) first() []component {
	all := []component{
		{"etcd", []string{
			p.Kubetest, "etcd", "--unsafe-no-fsync", "--data-dir", p.file("etcd"),
			"--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
			"--listen-peer-urls", "http://127.0.0.1:2380",
		}},
		p.apiserver("apiserver", "certificates", port, "/registry"),
	}
	for _, n := range p.nodes() {
		all = append(all, n.containerd())
	}
	return all
}

// then are the programs that ask the API server. The controller manager is not one of them: most
// tests need nothing of it, see later.
func (p *place) then() []component {
	all := []component{
		{"scheduler", []string{
			p.Kubetest, "scheduler", "--kubeconfig", p.file("kubeconfig"), "--authentication-kubeconfig", p.file("kubeconfig"),
			"--authorization-kubeconfig", p.file("kubeconfig"), "--leader-elect=false", "--secure-port", "0", "--profiling=false",
		}},
	}
	for _, n := range p.nodes() {
		all = append(all, n.runs())
	}
	return all
}

// later are the programs that run when a test asks for them: the API server of a second cluster,
// which has no nodes, and the controllers of workloads.
func (p *place) later() []component {
	return []component{
		p.apiserver("second-apiserver", "second-certificates", port+1, "/second"),
		{"controllers", []string{
			p.Kubetest, "controllers", "--kubeconfig", p.file("kubeconfig"), "--authentication-kubeconfig", p.file("kubeconfig"),
			"--authorization-kubeconfig", p.file("kubeconfig"), "--leader-elect=false", "--secure-port", "0", "--profiling=false",
			"--controllers", "deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,job-controller,garbage-collector-controller,namespace-controller",
		}},
	}
}

// apiserver is an API server whose objects nobody else has.
func (p *place) apiserver(name, certificates string, port int, objects string) component {
	return component{name, []string{
		p.Kubetest, "apiserver", "--etcd-servers", "http://127.0.0.1:2379", "--etcd-prefix", objects, "--secure-port", strconv.Itoa(port), "--bind-address", "0.0.0.0",
		"--advertise-address", p.address(), "--service-cluster-ip-range", "10.96.0.0/16", "--cert-dir", p.file(certificates),
		"--token-auth-file", p.file("tokens.csv"), "--authorization-mode", "RBAC",
		"--disable-admission-plugins", "TaintNodesByCondition", "--endpoint-reconciler-type", "none",
		"--kubelet-preferred-address-types", "InternalIP", "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", p.file("key.pem"), "--service-account-signing-key-file", p.file("key.pem"),
		"--allow-privileged", "--watch-cache=true", "--profiling=false",
	}}
}

func (p *place) components() []component { return slices.Concat(p.first(), p.then(), p.later()) }

// configure writes the files of the components.
func (p *place) configure() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tokens := fmt.Sprintf("%s,admin,admin,system:masters\n%s,limited,limited\n", p.Token, p.Limited)
	var nodes error
	for _, n := range p.nodes() {
		nodes = errors.Join(nodes, n.configure())
	}
	return errors.Join(
		nodes,
		os.WriteFile(p.file("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), 0o600),
		os.WriteFile(p.file("tokens.csv"), []byte(tokens), 0o600),
		p.write("kubeconfig", map[string]any{
			"apiVersion": "v1", "kind": "Config", "current-context": "test",
			"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{"server": p.server(), "insecure-skip-tls-verify": true}}},
			"users":    []any{map[string]any{"name": "admin", "user": map[string]any{"token": p.Token}}},
			"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": "admin", "namespace": "default"}}},
		}),
		p.knowRegistry(p.registry()),
		p.knowRegistry(p.private()),
		writePause(p.file("pause.tar"), self),
	)
}

// knowRegistry has nodes ask a registry without TLS.
func (p *place) knowRegistry(address string) error {
	dir := filepath.Join(p.file("registries"), address)
	return errors.Join(
		os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "hosts.toml"), fmt.Appendf(nil, "server = \"http://%[1]s\"\n[host.\"http://%[1]s\"]\ncapabilities = [\"pull\", \"resolve\"]\n", address), 0o600),
	)
}
