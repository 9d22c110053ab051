// Package oci runs containers without a daemon, by an OCI runtime such as runc.
//
// Images lie unpacked in a cache directory. One run is an overlay above an
// image's layers in a mount namespace and a process namespace of its own, in
// which a launcher (package internal/entrypoint) has the runtime create and start the
// container. When the run ends, or the tool that runs it, however it ends, both
// namespaces end, and with them every process and every mount.
//
// What namespaces do not take along is a file in the run directory and the
// container's cgroups. The file holds the container's labels and is locked by
// the tool that runs it. One that nobody has locked was left by a tool that died:
// Open and Containers kill what may still be dying and remove the rest.
//
// Containers get less than Docker gives them: a read-only root with a writable
// /tmp, fewer capabilities, no new privileges, a system call filter, and bounds
// on memory and processes. Without root there are no such bounds, and one user.
package oci

import (
	"log/slog"
	"time"
)

// Options says how to run containers. The zero value works for most.
type Options struct {
	// CacheDir holds images; empty is deployster/oci in the user's cache
	// directory.
	CacheDir string

	// RunDir holds what is known of running containers; empty is
	// /run/deployster for root, deployster in XDG_RUNTIME_DIR, else a directory
	// of this user's below os.TempDir. Engines see each other's containers if
	// they share it.
	RunDir string

	// Runtime is the name or path of an OCI runtime; empty is runc.
	Runtime string

	// AllowUnbounded runs containers also where no control groups can be made,
	// which then bound neither their memory nor their processes. It changes
	// nothing where there are some, and nothing without root.
	AllowUnbounded bool

	// Logger receives what does not fail a call; nil discards it.
	Logger *slog.Logger
}

// Image is an image in the cache.
type Image struct {
	ID      string    `json:"id"`               // "sha256:…" of its configuration
	Digest  string    `json:"digest,omitempty"` // "sha256:…" of its manifest in a registry, or "" if it never was in one
	Names   []string  `json:"names"`            // references it is known by
	Size    int64     `json:"size"`             // bytes that its layers take, those it shares included
	Created time.Time `json:"created,omitzero"`
	Used    time.Time `json:"used"` // when a container of it was last run, or it was pulled or loaded
}

// Pruned says what Prune removed.
type Pruned struct {
	Images []Image
	Bytes  int64 // on disk
}
