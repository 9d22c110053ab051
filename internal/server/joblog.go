package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/proposal"
)

// LogSize is the header that says how many bytes the log of a job has by now.
const LogSize = "Deployster-Log-Size"

// maxLogPart is how much of a log is sent at once, in bytes.
const maxLogPart = 1 << 20

// registerJobLog adds what jobs have printed.
func (s *Server) registerJobLog() {
	type input struct {
		Name    string `path:"name" maxLength:"512" doc:"Slashes are written %2F."`
		Job     string `path:"job" maxLength:"512" doc:"Its number, or what it builds."`
		Attempt int    `query:"attempt" minimum:"0" doc:"Of the job; the last that has a log where it is left out."`
		Offset  int64  `query:"offset" minimum:"0" doc:"Bytes that are left out at the beginning."`
		Limit   int64  `query:"limit" minimum:"0" maximum:"1048576" default:"1048576" doc:"Bytes at most."`
	}
	register(s, Operation{
		ID: "get-job-log", Method: http.MethodGet, Path: "/v1/builds/{name}/jobs/{job}/log", Role: identity.Viewer, Kind: proposal.Builds, tags: []string{proposal.Builds},
		Summary: "What a job has printed, as far as it is kept",
		answers: map[string]*huma.Response{"200": {
			Description: "A part of the log. Of one that is too large, its middle is left out.",
			Headers:     map[string]*huma.Param{LogSize: {Description: "Bytes of the whole log by now.", Schema: &huma.Schema{Type: huma.TypeInteger}}},
			Content:     map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
		}},
	}, func(ctx context.Context, in *input) (*huma.StreamResponse, error) {
		if err := s.builds.Follow(ctx, 0); err != nil {
			return nil, err
		}
		j, err := s.buildsAt(deploylog.Event{CreatedAt: s.Now()}).Job(in.Name, in.Job)
		if err != nil {
			return nil, refused(err)
		}
		f, err := s.openLog(j, in.Attempt)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			defer f.Close() //nolint:errcheck // it is read only
			ctx.SetHeader("Content-Type", "application/octet-stream")
			ctx.SetHeader(LogSize, strconv.FormatInt(info.Size(), 10))
			part := io.NewSectionReader(f, min(in.Offset, info.Size()), min(in.Limit, maxLogPart, max(0, info.Size()-in.Offset)))
			ctx.SetHeader("Content-Length", strconv.FormatInt(part.Size(), 10)) // so that one that is cut off does not look whole
			_, _ = io.Copy(s.progressing(ctx), part)                            // who asked may have gone
		}}, nil
	})
}

// openLog opens the log of an attempt of a job; 0 is the last that has one.
func (s *Server) openLog(j build.JobReport, attempt int) (*os.File, error) {
	if attempt == 0 {
		attempt = jobs.LoggedAttempt(j)
	}
	if attempt == 0 || attempt > j.Attempt {
		return nil, huma.Error404NotFound("there is no such attempt")
	}
	f, err := jobs.OpenLog(s.Workspace, j.Group, j.Number, attempt)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, huma.Error404NotFound("there is no log of it here")
	}
	return f, err
}
