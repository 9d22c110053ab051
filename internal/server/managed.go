package server

import (
	"context"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/deploylog"
)

// registerThings adds what lists what runs made.
func (s *Server) registerThings() {
	type input struct {
		ListInput
		Manifest string `query:"manifest" maxLength:"4096" doc:"Only what is of this manifest: a file, or its name."`
		Orphans  bool   `query:"orphans" doc:"Only what nothing declares."`
	}
	op := listing("things", "", "What runs of manifests made and is still there, by manifest")
	op.Description += " Whether it is declared is found out on the server. What pipelines and environments made is not in it."
	register(s, op, func(ctx context.Context, in *input) (*part[managed.Row], error) {
		if s.Managed == nil {
			return nil, huma.Error409Conflict("this server does not know which things its runs made")
		}
		question := managed.Question{Manifest: in.Manifest, Orphans: in.Orphans}
		selects := url.Values{}
		if in.Manifest != "" {
			selects.Set("manifest", in.Manifest)
		}
		if in.Orphans {
			selects.Set("orphans", strconv.FormatBool(in.Orphans))
		}
		return list[managed.Row]{path: "/v1/things", selects: selects, timed: true, key: managed.Row.Key, read: func(after string, newest deploylog.Event) ([]managed.Row, int64, error) {
			rows, err := s.things.Rows(ctx, s.Managed, question, after != "", newest.Seq)
			return rows, newest.Seq, err
		}}.part(ctx, s, &in.ListInput)
	})
}
