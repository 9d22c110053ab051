package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// registryPort is where the node expects a registry on this machine.
const registryPort = 5000

func (p *place) registry() string { return fmt.Sprintf("%s:%d", p.host(), registryPort) }
func (p *place) server() string   { return fmt.Sprintf("https://%s:6443", p.node()) }

// first are the programs of a cluster that need no others.
func (p *place) first() []component {
	return []component{
		{"etcd", []string{
			p.Kubetest, "etcd", "--unsafe-no-fsync", "--data-dir", p.file("etcd"),
			"--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
			"--listen-peer-urls", "http://127.0.0.1:2380",
		}},
		{"containerd", []string{"containerd", "--config", p.file("containerd.toml")}},
		{"apiserver", []string{
			p.Kubetest, "apiserver", "--etcd-servers", "http://127.0.0.1:2379", "--secure-port", "6443", "--bind-address", "0.0.0.0",
			"--advertise-address", p.node(), "--service-cluster-ip-range", "10.96.0.0/16", "--cert-dir", p.file("certificates"),
			"--token-auth-file", p.file("tokens.csv"), "--authorization-mode", "RBAC",
			"--disable-admission-plugins", "TaintNodesByCondition", "--endpoint-reconciler-type", "none",
			"--kubelet-preferred-address-types", "Hostname", "--service-account-issuer", "https://kubernetes.default.svc",
			"--service-account-key-file", p.file("key.pem"), "--service-account-signing-key-file", p.file("key.pem"),
			"--allow-privileged", "--watch-cache=true", "--profiling=false",
		}},
	}
}

// then are the programs that ask the API server. There is no controller manager: nothing that
// the tests need is done by one.
func (p *place) then() []component {
	return []component{
		{"scheduler", []string{
			p.Kubetest, "scheduler", "--kubeconfig", p.file("kubeconfig"), "--authentication-kubeconfig", p.file("kubeconfig"),
			"--authorization-kubeconfig", p.file("kubeconfig"), "--leader-elect=false", "--secure-port", "0", "--profiling=false",
		}},
		{"kubelet", []string{
			p.Kubetest, "kubelet", "--config", p.file("kubelet.json"), "--kubeconfig", p.file("kubeconfig"),
			"--hostname-override", "localhost", "--node-ip", p.node(), "--root-dir", "/var/lib/kubelet", "--cert-dir", p.file("kubelet-certificates"),
		}},
	}
}

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
	hosts := filepath.Join(p.file("registries"), p.registry())
	cni := p.file("cni")
	return errors.Join(
		os.WriteFile(p.file("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), 0o600),
		os.WriteFile(p.file("tokens.csv"), []byte(tokens), 0o600),
		p.write("kubeconfig", map[string]any{
			"apiVersion": "v1", "kind": "Config", "current-context": "test",
			"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{"server": p.server(), "insecure-skip-tls-verify": true}}},
			"users":    []any{map[string]any{"name": "admin", "user": map[string]any{"token": p.Token}}},
			"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": "admin", "namespace": "default"}}},
		}),
		p.write("kubelet.json", p.kubelet()),
		os.WriteFile(p.file("containerd.toml"), []byte(p.containerd(cni)), 0o600),
		os.MkdirAll(hosts, 0o700),
		os.WriteFile(filepath.Join(hosts, "hosts.toml"), fmt.Appendf(nil, "server = \"http://%[1]s\"\n[host.\"http://%[1]s\"]\ncapabilities = [\"pull\", \"resolve\"]\n", p.registry()), 0o600),
		os.MkdirAll(cni, 0o700),
		os.WriteFile(filepath.Join(cni, "10-test.conflist"), []byte(`{"cniVersion": "0.4.0", "name": "test", "plugins": [
			{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.204.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}}]}`), 0o600),
		writePause(p.file("pause.tar"), self),
	)
}

func (p *place) kubelet() map[string]any {
	never := map[string]string{"memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%", "pid.available": "0%"}
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication":           map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization":            map[string]any{"mode": "AlwaysAllow"},
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"cgroupDriver":             "cgroupfs", "cgroupRoot": "/" + p.name(), "failCgroupV1": false, "failSwapOn": false,
		"enforceNodeAllocatable": []string{}, "evictionHard": never, "oomScoreAdj": 0, "maxPods": 250,
		"serializeImagePulls": false, "registryPullQPS": 0, "eventRecordQPS": 0, "kubeAPIQPS": 200, "kubeAPIBurst": 400,
		"volumePluginDir": p.file("volume-plugins"), "resolvConf": "", "healthzPort": 0,
		"nodeStatusUpdateFrequency":   "5s",
		"imageGCHighThresholdPercent": 100, // images stay, however full the disk is: nobody could pull the one of pauses again
	}
}

func (p *place) containerd(cni string) string {
	return fmt.Sprintf(`version = 2
root = %q
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = %q
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = %q
`, p.file("containerd"), pauseImage, cni, p.file("registries"))
}

// importPause gives containerd the image that holds the namespaces of Pods.
func (p *place) importPause() error {
	var last error
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(100 * time.Millisecond) {
		said, err := exec.Command("ctr", "--namespace", "k8s.io", "images", "import", p.file("pause.tar")).CombinedOutput()
		if err == nil {
			return nil
		}
		last = fmt.Errorf("import the pause image: %w: %s", err, said)
	}
	return last
}

// whenReady returns once the node takes Pods.
func (p *place) whenReady() error {
	var last error
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(100 * time.Millisecond) {
		if last = p.nodeReady(); last == nil {
			return nil
		}
	}
	return fmt.Errorf("not ready after %s: %w", patience, last)
}

// nodeReady asks the API server for the node.
func (p *place) nodeReady() error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := p.ask(http.MethodGet, "/api/v1/nodes/localhost", nil, &node); err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == "Ready" {
			if c.Status == "True" {
				return nil
			}
			return errors.New(c.Message)
		}
	}
	return errors.New("the node has not said anything yet")
}
