package authoring

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/protocol"
)

func TestWhatIsServedIsBoundedAndKept(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(line string, asked protocol.ServeRequest) string
		detail string
	}{
		"state keeps beside its document": {
			func(line string, asked protocol.ServeRequest) string {
				if asked.Action == "state" {
					return strings.TrimSuffix(line, "}") + `, "keep": {"id": "i-1"}}`
				}
				return line
			},
			`state, served, has "keep" beside its output; only an action may`,
		},
		"state floods stderr": {
			func(line string, asked protocol.ServeRequest) string {
				if asked.Action == "state" {
					return fmt.Sprintf(`{"id": %d, "stderr": %q}`, asked.ID, strings.Repeat("x", 2<<20)) + "\n" + line
				}
				return line
			},
			"state, served, wrote 2097152 bytes to stderr",
		},
		"what an action keeps is lost": {
			func(line string, asked protocol.ServeRequest) string {
				if asked.Action == "create" {
					return fmt.Sprintf(`{"id": %d, "exit": 0, "keep": {"id": "i-9999"}}`, asked.ID)
				}
				return line
			},
			"after its actions, served, the state must be VALID; it is STALE (create)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVMType()
			v.find = func(r protocol.Request[vm]) (string, error) { // by nothing but what is kept
				r.ID = "nobody's"
				return v.machine(r)
			}
			p := v.serving(func(ctx context.Context, stdin io.Reader, stdout io.Writer) {
				lines := json.NewDecoder(stdin)
				for {
					var asked protocol.ServeRequest
					if lines.Decode(&asked) != nil {
						return
					}
					line, _ := json.Marshal(asked)
					var out bytes.Buffer
					v.Run(ctx, []string{"serve"}, bytes.NewReader(append(line, '\n')), &out, io.Discard)
					fmt.Fprintln(stdout, tc.change(strings.TrimSuffix(out.String(), "\n"), asked))
				}
			})
			results := checked(t, p, aVM())
			r := results["served and one-shot answers agree"]
			require.Equal(t, Failed, r.Outcome)
			assert.Contains(t, r.Detail, tc.detail)
		})
	}
}

// A type that hangs is found in the time of a bubble, so that no machine is too slow for what does answer.
func TestTypesThatHangAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		hangs  func(v *vmType) program
		check  string
		detail string
	}{
		"init hangs": {
			func(v *vmType) program {
				return func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
					if len(args) == 0 {
						<-ctx.Done()
					}
					return v.Run(ctx, args, stdin, stdout, stderr)
				}
			},
			"init exits with 0", "init did not end within 5m0s",
		},
		"it never answers": {
			func(v *vmType) program {
				return v.serving(func(_ context.Context, stdin io.Reader, _ io.Writer) { _, _ = io.Copy(io.Discard, stdin) })
			},
			"serve starts and answers", "the process that serves did not answer init within 5m0s",
		},
		"it reads no more than one line at a time": {
			func(v *vmType) program {
				return v.serving(func(ctx context.Context, stdin io.Reader, stdout io.Writer) {
					many := make([]byte, 1<<20)
					for {
						n, err := stdin.Read(many)
						if err != nil {
							return
						}
						line, _, _ := bytes.Cut(many[:n], []byte("\n"))
						v.Run(ctx, []string{"serve"}, bytes.NewReader(append(line, '\n')), stdout, io.Discard)
					}
				})
			},
			"two requests at once are both answered", "the process that serves did not answer state within 5m0s",
		},
		"it does not end": {
			func(v *vmType) program {
				return v.serving(func(ctx context.Context, stdin io.Reader, stdout io.Writer) {
					v.Run(ctx, []string{"serve"}, stdin, stdout, io.Discard)
					<-ctx.Done()
				})
			},
			"serve ends when its stdin ends", "the process that serves did not end after its stdin had ended within 5m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				onlyFound(t, checked(t, tc.hangs(newVMType()), aVM()), tc.check, Failed, tc.detail)
			})
		})
	}
}

// serving is the type that serves in a way of its own.
func (v *vmType) serving(serve func(ctx context.Context, stdin io.Reader, stdout io.Writer)) program {
	return func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
		if len(args) != 1 || args[0] != "serve" {
			return v.Run(ctx, args, stdin, stdout, stderr)
		}
		serve(ctx, stdin, stdout)
		return 0
	}
}
