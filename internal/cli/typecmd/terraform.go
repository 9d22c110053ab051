package typecmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/internal/tfimage"
	"github.com/deployster-go/deployster/internal/tfpackage"
	"github.com/deployster-go/deployster/protocol"
)

// registryVariable names the registry of providers that are not given one.
const registryVariable = "DEPLOYSTER_TERRAFORM_REGISTRY"

// downloadTimeout is how long a package may take to be fetched.
const downloadTimeout = 30 * time.Minute

type terraformOptions struct {
	provider  string
	resources []string
	name      string
	registry  string
	plugs     []string
	engine    engines.Flags
}

func newTerraformCommand(a *app.App) *cobra.Command {
	var o terraformOptions
	c := &cobra.Command{
		Use:   "terraform PROVIDER[@VERSION]",
		Short: "Make resource types of a Terraform provider",
		Long: `Make resource types of a Terraform provider: an image for each of its resources
and data sources, in the engine that --engine names.

PROVIDER is the file of a provider's program or package, a directory in which it
is, such as a mirror that "terraform providers mirror" has made, or
NAMESPACE/NAME in a registry. The registry is named by --registry, by the
variable ` + registryVariable + `, or as HOST/NAMESPACE/NAME.

The images are named terraform/PROVIDER/RESOURCE:VERSION; those of data sources
terraform/PROVIDER/data.SOURCE:VERSION. What a provider needs of the machine,
such as the socket of Docker, it gets as a plug.

Exit codes: 0 the images are made, 1 the provider does not work, 3 wrong usage.`,
		Example: `  deployster type terraform ./terraform-provider-docker_v3.6.2 --plug docker=/var/run/docker.sock
  deployster type terraform hashicorp/aws@6.2.0 --resource aws_instance --registry https://registry.example.com
  deployster type terraform mirror/registry.example.com/hashicorp/random --resource random_password --resource random_pet`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return exit.Usage("terraform takes one provider, such as ./terraform-provider-random or NAMESPACE/NAME@VERSION; it got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.provider = args[0]
			return interrupt.Within(c.Context(), func(ctx context.Context) error { return runTerraform(ctx, a, o) })
		},
	}
	c.Flags().StringArrayVar(&o.resources, "resource", nil, "resource of the provider, or data.NAME of a data source (repeatable; default: all)")
	c.Flags().StringVar(&o.name, "name", "", "name of the images before that of the resource (default: terraform/PROVIDER)")
	c.Flags().StringVar(&o.registry, "registry", "", "address of the registry to fetch the provider from (default: $"+registryVariable+")")
	c.Flags().StringArrayVar(&o.plugs, "plug", nil, "plug that the types ask for, as NAME=PATH[,optional][,read-only] with the path where the provider finds it (repeatable)")
	o.engine.Register(c)
	return c
}

func runTerraform(ctx context.Context, a *app.App, o terraformOptions) (err error) {
	policy, err := o.engine.Policy()
	if err != nil {
		return err
	}
	plugs, err := plugRequests(o.plugs)
	if err != nil {
		return err
	}
	on, err := engines.Connect(ctx, a, a.Err, o.engine)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.Engine.Close()) }()
	if o.registry == "" {
		o.registry = a.Getenv(registryVariable)
	}
	finder := tfpackage.Finder{OS: "linux", Arch: on.Info.Arch, Registry: o.registry, HTTP: &http.Client{Timeout: downloadTimeout}, Temp: os.TempDir()}
	found, err := finder.Find(ctx, o.provider)
	if err != nil {
		return exit.Invalid(err)
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	if err := shipped.CheckStatic(found.Path, on.Info.Arch); err != nil {
		return exit.Invalid(fmt.Errorf("the provider %s cannot be put into an image: %w", found.Name, err))
	}
	images, ok := on.Images.(*shipped.Images)
	if !ok {
		return fmt.Errorf("the engine %s takes no images", on.Info.Name)
	}
	program, err := images.Program(ctx, policy, nil)
	if err != nil {
		return fmt.Errorf("making images of the provider %s: %w", found.Name, err)
	}
	made, err := makeTypes(ctx, on.Engine, program, found, plugs, o, a.Version)
	if err != nil {
		return fmt.Errorf("making types of the provider %s: %w", found.Name, err)
	}
	return reportTypes(a, found, made)
}

func makeTypes(ctx context.Context, e engine.Engine, program shipped.Binary, found tfpackage.Package, plugs map[string]protocol.PlugRequest, o terraformOptions, version string) (tfimage.Made, error) {
	if o.name == "" {
		o.name = "terraform/" + found.Name
	}
	tag := strings.ReplaceAll(found.Version, "+", "-")
	if tag == "" {
		tag = "latest"
	}
	if _, err := name.NewTag(o.name+"/x:"+tag, name.WeakValidation); err != nil {
		return tfimage.Made{}, exit.Usage("--name %s: images cannot be named so: %w", o.name, err)
	}
	return tfimage.Make(ctx, e, tfimage.Contents{
		Program: program, Provider: found.Path,
		Labels: map[string]string{"deployster.type": "terraform", "deployster.version": version, "deployster.provider": found.Name + "@" + found.Version},
	}, tfimage.Options{Name: o.name, Version: tag, Resources: o.resources, Plugs: plugs})
}

func reportTypes(a *app.App, found tfpackage.Package, made tfimage.Made) error {
	for _, resource := range slices.Sorted(maps.Keys(made.Skipped)) {
		fmt.Fprintf(a.Err, "note: there is no type of %s: %s\n", resource, made.Skipped[resource])
	}
	return a.Say(map[string]any{"provider": found.Name, "version": found.Version, "types": made.Images, "skipped": made.Skipped},
		"%s\nmade %s of the provider %s", strings.Join(made.Images, "\n"), phrase.Count(len(made.Images), "type"), strings.TrimSuffix(found.Name+" "+found.Version, " "))
}

// plugRequests reads NAME=PATH[,optional][,read-only].
func plugRequests(flags []string) (map[string]protocol.PlugRequest, error) {
	plugs := map[string]protocol.PlugRequest{}
	for _, flag := range flags {
		name, rest, _ := strings.Cut(flag, "=")
		words := strings.Split(rest, ",")
		p := protocol.PlugRequest{ContainerPath: words[0], Writable: true}
		for _, word := range words[1:] {
			switch word {
			case "optional":
				p.Optional = true
			case "read-only":
				p.Writable = false
			default:
				return nil, exit.Usage("--plug %s: %q is neither optional nor read-only", flag, word)
			}
		}
		if name == "" || !path.IsAbs(p.ContainerPath) || path.Clean(p.ContainerPath) != p.ContainerPath || p.ContainerPath == "/" {
			return nil, exit.Usage("--plug %s: it must be NAME=PATH, with an absolute path in the container", flag)
		}
		if _, twice := plugs[name]; twice {
			return nil, exit.Usage("--plug %s: the plug %q is given twice", flag, name)
		}
		plugs[name] = p
	}
	return plugs, nil
}
