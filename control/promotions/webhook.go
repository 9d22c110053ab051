package promotions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/regularfile"
	"github.com/deployster-go/deployster/internal/webhook"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// The bounds of one request.
const (
	askTime    = 15 * time.Second
	mostKey    = 64 << 10 // bytes of the file of a key
	mostAnswer = 200      // bytes of an answer that are recorded
)

// Request is what a webhook is asked, as it is sent.
type Request struct {
	Version     int      `json:"version"` // of the form of the request: 1
	Key         string   `json:"key"`     // the same whenever the same try asks again, after a kill
	Pipeline    string   `json:"pipeline"`
	Stage       string   `json:"stage"`
	Environment string   `json:"environment"`        // "" of a stage that is none
	Manifest    string   `json:"manifest,omitempty"` // of a stage on hosts
	Hosts       string   `json:"hosts,omitempty"`    // the query that selects them
	Objects     []string `json:"objects,omitempty"`  // of a stage that is objects in clusters
	Revision    string   `json:"revision"`
	Attempt     int      `json:"attempt"`
}

// ask asks a program to bring a revision to an environment. A process that died may have asked
// already: the program knows that by the key. What takes time comes first, so that nothing but
// the request is between the decision that it may be asked and that it is.
func (c *Controller) ask(ctx context.Context, pipeline string, s promotion.Step, variable string, stage *definition.Stage) (begun promotion.Begun, err error) {
	hook := stage.Webhook
	key, err := readKey(c.Workspace, hook.KeyFile)
	if err != nil {
		return begun, fmt.Errorf("webhook of %s: %w", s.Target, err)
	}
	r := Request{Version: 1, Key: c.keyOf(s), Pipeline: pipeline, Stage: s.Stage, Environment: s.Environment, Revision: s.Revision, Attempt: s.Attempt}
	if on := stage.Targets; on != nil {
		r.Environment, r.Manifest, r.Hosts = "", on.Manifest, on.Hosts
	}
	for i := range stage.Objects {
		r.Environment, r.Objects = "", append(r.Objects, stage.Objects[i].String())
	}
	body, err := json.Marshal(r)
	if err != nil {
		return begun, fmt.Errorf("webhook of %s: %w", s.Target, err)
	}
	if err := c.mayAsk(ctx, pipeline, s, variable); err != nil {
		return begun, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, fmt.Errorf("no answer within %s", askTime))
	defer cancel()
	answer, err := webhook.Post(ctx, hook.URL, key, r.Key, c.Now(), body)
	if err != nil {
		return begun, fmt.Errorf("webhook of %s: %w%s", s.Target, err, said(answer))
	}
	begun.Answer = fmt.Sprint(answer.Status) + said(answer)
	return begun, nil
}

// mayAsk fails where something that was recorded since the step was decided forbids it. While
// that is looked at nobody records anything of pipelines or environments: a hold is either seen,
// or comes after the program was to be asked. The locks are not kept while it is asked, or one
// that does not answer would keep everybody from giving commands.
func (c *Controller) mayAsk(ctx context.Context, pipeline string, s promotion.Step, variable string) error {
	return c.tries.Hold(ctx, func() error {
		p, err := c.tries.Find(pipeline)
		if err != nil {
			return err
		}
		if slices.Contains(p.SightedPlaces(), s.Environment) {
			return p.Forbids(s, promotion.Observation{}) // nobody rolls it back here
		}
		return c.commands.Hold(ctx, func() error {
			e, err := c.commands.Find(s.Environment)
			if err != nil {
				return err
			}
			return p.Forbids(s, observe(e, variable))
		})
	})
}

// keyOf is what a try is known by, in all logs.
func (c *Controller) keyOf(s promotion.Step) string {
	const half = 16
	sum := sha256.Sum256([]byte(c.Log.ID() + "\x00" + s.Key()))
	return "promotion-" + hex.EncodeToString(sum[:half])
}

// said is the beginning of what was answered, in one line.
func said(a webhook.Answer) string {
	text := strings.ToValidUTF8(a.Body[:min(len(a.Body), mostAnswer)], "")
	text = strings.Join(strings.Fields(phrase.Plain(text)), " ")
	if text == "" {
		return ""
	}
	return ": " + text
}

// readKey reads a file below the workspace, and none beside it, whatever links there are. It is
// read each time, so that it may be exchanged.
func readKey(workspace, path string) (string, error) {
	if !definition.IsSecretFile(path) { // the log may have what no file could say
		return "", fmt.Errorf("the key is not read: key_file %.200q %s", path, definition.SecretFileRule)
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return "", fmt.Errorf("reading the key: %w", err)
	}
	defer root.Close() //nolint:errcheck // it was only read
	file, _, err := regularfile.OpenIn(root, filepath.FromSlash(path))
	if err != nil {
		return "", fmt.Errorf("reading the key: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, mostKey))
	if err != nil {
		return "", fmt.Errorf("reading the key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if err := webhook.CheckKey(key); err != nil {
		return "", fmt.Errorf("what %s holds: %w", path, err)
	}
	return key, nil
}
