package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// node is a node of a cluster: a kubelet with a containerd. All nodes have the network and the
// address of the cluster, and see the same files.
type node struct {
	*place
	number int
}

// nodes are those of a cluster. Pods come to the first one, and to others when they tolerate the
// taint "apart".
func (p *place) nodes() []node { return []node{{p, 1}, {p, 2}} }

func (n node) name() string    { return fmt.Sprintf("node-%d", n.number) }
func (n node) kubelet() string { return fmt.Sprintf("kubelet-%d", n.number) } // the component
func (n node) group() string   { return fmt.Sprintf("%s-%d", n.place.name(), n.number) }
func (n node) socket() string  { return fmt.Sprintf("/run/containerd/%d.sock", n.number) }

// own is the name of a file that other nodes have as well.
func (n node) own(name string) string { return n.file(fmt.Sprintf("%d-%s", n.number, name)) }

func (n node) containerd() component {
	return component{fmt.Sprintf("containerd-%d", n.number), []string{"containerd", "--config", n.own("containerd.toml")}}
}

func (n node) runs() component {
	return component{n.kubelet(), []string{
		n.Kubetest, "kubelet", "--config", n.own("kubelet.json"), "--kubeconfig", n.file("kubeconfig"),
		"--hostname-override", n.name(), "--node-ip", n.address(), "--root-dir", fmt.Sprintf("/var/lib/kubelet/%d", n.number),
		"--cert-dir", n.own("certificates"),
	}}
}

// configure writes the files of its components.
func (n node) configure() error {
	encoded, err := json.Marshal(n.settings())
	if err != nil {
		return err
	}
	network := fmt.Sprintf(`{"cniVersion": "0.4.0", "name": "test-%[1]d", "plugins": [
		{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.204.%[2]d.0/18", "routes": [{"dst": "0.0.0.0/0"}]}}]}`, n.number, (n.number-1)*64)
	return errors.Join(
		os.WriteFile(n.own("kubelet.json"), encoded, 0o600),
		os.WriteFile(n.own("containerd.toml"), []byte(n.runtime()), 0o600),
		os.MkdirAll(n.own("cni"), 0o700),
		os.WriteFile(filepath.Join(n.own("cni"), "10-test.conflist"), []byte(network), 0o600),
	)
}

func (n node) settings() map[string]any {
	never := map[string]string{"memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%", "pid.available": "0%"}
	all := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication":           map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization":            map[string]any{"mode": "AlwaysAllow"},
		"containerRuntimeEndpoint": "unix://" + n.socket(),
		"cgroupDriver":             "cgroupfs", "cgroupRoot": "/" + n.group(), "failCgroupV1": false, "failSwapOn": false,
		"enforceNodeAllocatable": []string{}, "evictionHard": never, "oomScoreAdj": 0, "maxPods": 250,
		"serializeImagePulls": false, "registryPullQPS": 0, "eventRecordQPS": 0, "kubeAPIQPS": 200, "kubeAPIBurst": 400,
		"volumePluginDir": n.file("volume-plugins"), "podLogsDir": fmt.Sprintf("/var/log/pods/%d", n.number),
		"resolvConf": "", "port": 10249 + n.number, "healthzPort": 0,
		"nodeStatusUpdateFrequency":   "5s",
		"imageGCHighThresholdPercent": 100, // images stay, however full the disk is: nobody could pull the one of pauses again
	}
	if n.number > 1 {
		all["registerWithTaints"] = []any{map[string]string{"key": "apart", "effect": "NoSchedule"}}
	}
	return all
}

func (n node) runtime() string {
	return fmt.Sprintf(`version = 2
root = %q
state = "/run/containerd/%d"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = %q
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = %q
`, n.own("containerd"), n.number, n.socket(), pauseImage, n.own("cni"), n.file("registries"))
}

// importPause gives containerd the image that holds the namespaces of Pods.
func (n node) importPause() error {
	var last error
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(100 * time.Millisecond) {
		said, err := exec.Command("ctr", "--address", n.socket(), "--namespace", "k8s.io", "images", "import", n.file("pause.tar")).CombinedOutput()
		if err == nil {
			return nil
		}
		last = fmt.Errorf("import the pause image: %w: %s", err, said)
	}
	return last
}

// whenReady returns once the node takes Pods.
func (n node) whenReady() error {
	var last error
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(100 * time.Millisecond) {
		if last = n.ready(); last == nil {
			return nil
		}
	}
	return fmt.Errorf("%s is not ready after %s: %w", n.name(), patience, last)
}

// ready asks the API server for the node.
func (n node) ready() error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := n.ask(http.MethodGet, "/api/v1/nodes/"+n.name(), nil, &node); err != nil {
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
