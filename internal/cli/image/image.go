// Package image is the commands of the images that the oci engine keeps.
package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/phrase"
)

// NewCommand returns the commands of the images of the oci engine.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "List, load and prune the images of the oci engine",
		Long: `List, load and prune the images of the oci engine, which keeps them, unpacked,
in the user's cache directory. Images of a registry are pulled when they are
first needed; these commands are for the others, and for tidying up.

A Docker Engine has its own images and commands (docker image).`,
		Example: `  deployster image load web.tar
  deployster image load --docker web:1
  deployster image list
  deployster image prune --unused-for 720h`,
	}
	c.AddCommand(newListCommand(a), newLoadCommand(a), newPruneCommand(a))
	return c
}

// withImages gives a command the oci engine, whatever engine runs containers.
func withImages(ctx context.Context, a *app.App, do func(context.Context, *oci.Engine) error) error {
	switch a.Global.Engine {
	case engines.Auto, engines.OCI:
	case engines.Docker:
		return exit.Usage("--engine docker: these commands are for the images of the oci engine; Docker's are listed by docker image ls")
	case engines.Kubernetes:
		return exit.Usage("--engine kubernetes: these commands are for the images of the oci engine; a cluster pulls its images from registries")
	default:
		return engines.UnknownEngine(a.Global.Engine)
	}
	return interrupt.Within(ctx, func(ctx context.Context) (err error) {
		e, err := engines.OpenOCI(ctx, a, a.Err)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.Close()) }()
		return do(ctx, e)
	})
}

func newListCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the images in the cache",
		Example: "  deployster image list\n  deployster image list --output json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runList(c.Context(), a) },
	}
}

func runList(ctx context.Context, a *app.App) error {
	return withImages(ctx, a, func(_ context.Context, e *oci.Engine) error {
		images, err := e.Images()
		if err != nil {
			return err
		}
		rows := [][]string{{"NAME", "ID", "SIZE", "USED"}} // one a name
		for _, i := range images {
			names := i.Names
			if len(names) == 0 {
				names = []string{"–"}
			}
			for _, name := range names {
				rows = append(rows, []string{name, shortID(i), phrase.Size(i.Size), i.Used.Local().Format("2006-01-02 15:04")})
			}
		}
		slices.SortStableFunc(rows[1:], func(a, b []string) int { return strings.Compare(a[0], b[0]) })
		return a.List(map[string]any{"images": images}, "no images", rows)
	})
}

func shortID(i oci.Image) string {
	id := strings.TrimPrefix(i.ID, "sha256:")
	return id[:min(len(id), 12)]
}

func imageName(i oci.Image) string {
	if len(i.Names) == 0 {
		return "an image without a name"
	}
	return strings.Join(i.Names, ", ")
}

type loadOptions struct {
	path   string // of a tar or a directory, or - for stdin
	docker string // name or id of an image that the Docker Engine has
}

func newLoadCommand(a *app.App) *cobra.Command {
	var o loadOptions
	c := &cobra.Command{
		Use:   "load FILE | DIRECTORY | - | --docker IMAGE",
		Short: "Load images into the cache: a tar, an OCI layout, or an image that Docker has",
		Long: `Load images into the cache.

FILE is a tar as "docker save" makes it, or of an OCI layout; DIRECTORY is an OCI
layout; - is a tar on stdin. With --docker the image is taken from the Docker
Engine, by name or id, and keeps its id.`,
		Example: `  deployster image load web.tar
  docker save web:1 | deployster image load -
  deployster image load --docker web:1`,
		Args: func(_ *cobra.Command, args []string) error {
			if o.docker == "" && len(args) != 1 || o.docker != "" && len(args) != 0 {
				return exit.Usage("say either one FILE, DIRECTORY or -, or --docker IMAGE")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.path = strings.Join(args, "")
			return runLoad(c.Context(), a, o)
		},
	}
	c.Flags().StringVar(&o.docker, "docker", "", "name or id of an image that the Docker Engine has")
	return c
}

func runLoad(ctx context.Context, a *app.App, o loadOptions) error {
	return withImages(ctx, a, func(ctx context.Context, e *oci.Engine) error {
		images, err := load(ctx, a, e, o)
		if err != nil {
			return err
		}
		var lines []string
		for _, i := range images {
			lines = append(lines, fmt.Sprintf("loaded %s (%s, %s)", imageName(i), shortID(i), phrase.Size(i.Size)))
		}
		return a.Say(map[string]any{"images": images}, "%s", strings.Join(lines, "\n"))
	})
}

func load(ctx context.Context, a *app.App, e *oci.Engine, o loadOptions) (images []oci.Image, err error) {
	progress := a.Progress("loading")
	defer progress("")
	show := func(done int64) { progress(phrase.Size(done)) }
	switch {
	case o.docker != "":
		return loadFromDocker(ctx, a, e, o.docker, show)
	case o.path == "-":
		return e.LoadFrom(ctx, a.In, show)
	}
	if images, err = e.LoadPath(ctx, o.path, show); errors.Is(err, fs.ErrNotExist) {
		err = exit.Invalid(err)
	}
	return images, err
}

func loadFromDocker(ctx context.Context, a *app.App, e *oci.Engine, ref string, show func(int64)) (images []oci.Image, err error) {
	source, err := docker.Open(ctx, docker.Options{Tunnels: a.Tunnels(), Logger: app.Logger(a.Err)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	saved, err := source.Save(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, saved.Close()) }()
	return e.LoadFrom(ctx, saved, show)
}

type pruneOptions struct {
	unusedFor time.Duration
	all, yes  bool
}

func newPruneCommand(a *app.App) *cobra.Command {
	var o pruneOptions
	c := &cobra.Command{
		Use:   "prune [--all | --unused-for DURATION]",
		Short: "Remove images that are not needed from the cache",
		Long: `Remove images without a name from the cache, and the layers that no image
needs. With --unused-for, also the images of which no container was run for that
long; with --all, all images. What running containers use stays.

Images that came from a registry are pulled again when they are needed. Loaded
ones have to be loaded again, so you are asked before any of them is removed.`,
		Example: `  deployster image prune
  deployster image prune --unused-for 720h --yes
  deployster image prune --all`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runPrune(c.Context(), a, o) },
	}
	c.Flags().BoolVar(&o.all, "all", false, "all images")
	c.Flags().DurationVar(&o.unusedFor, "unused-for", 0, "images of which no container was run for so long, such as 720h")
	arguments.RegisterYes(c, &o.yes)
	return c
}

func runPrune(ctx context.Context, a *app.App, o pruneOptions) error {
	if o.all && o.unusedFor > 0 {
		return exit.Usage("--all and --unused-for exclude each other")
	}
	if o.unusedFor < 0 {
		return exit.Usage("--unused-for %s: it must not be negative", o.unusedFor)
	}
	keep := func(i oci.Image) bool {
		switch {
		case o.all || len(i.Names) == 0:
			return false
		case o.unusedFor > 0:
			return a.Now().Sub(i.Used) < o.unusedFor
		default:
			return true
		}
	}
	return withImages(ctx, a, func(ctx context.Context, e *oci.Engine) error {
		if !o.yes {
			if err := agreeToPrune(ctx, a, e, keep); err != nil {
				return err
			}
		}
		pruned, err := e.Prune(ctx, keep)
		if err != nil {
			return err
		}
		return a.Say(map[string]any{"images": pruned.Images, "bytes": pruned.Bytes},
			"removed %s, freed %s", phrase.Count(len(pruned.Images), "image"), phrase.Size(pruned.Bytes))
	})
}

// agreeToPrune asks before images are removed that cannot be pulled again.
func agreeToPrune(ctx context.Context, a *app.App, e *oci.Engine, keep func(oci.Image) bool) error {
	images, err := e.Images()
	if err != nil {
		return err
	}
	var lost []string
	for _, i := range images {
		if !keep(i) && i.Digest == "" {
			lost = append(lost, imageName(i)+" ("+shortID(i)+")")
		}
	}
	if len(lost) == 0 {
		return nil
	}
	list := strings.Join(lost, "\n  ")
	return prompt.Agree(ctx, a, false, phrase.Count(len(lost), "loaded image")+" that cannot be pulled again would be removed:\n  "+list,
		"These images were loaded and cannot be pulled again:\n  %s\nRemove them?", list)
}
