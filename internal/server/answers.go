package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deployster-go/deployster/deploylog"
)

// Conditional is what who asks says of former answers.
type Conditional struct {
	IfNoneMatch string `header:"If-None-Match" maxLength:"4096" doc:"ETags of former answers: 304 where one still holds."`
}

// revalidated is how an answer with an ETag may be kept.
const revalidated = "private, no-cache"

// unchanged is the answer of a conditional request beside those that the types say.
func unchanged() map[string]*huma.Response {
	return map[string]*huma.Response{"304": {Description: "It is as If-None-Match says"}}
}

// answer is one that has an ETag.
type answer[T any] struct {
	Status int
	ETag   string `header:"ETag"`
	Cache  string `header:"Cache-Control"`
	Body   T
}

// derived is an answer that follows from the log alone, so that it holds until something is
// appended: then it is found out anew. of is what is asked for, and read gets the newest event.
func derived[T any](ctx context.Context, s *Server, in Conditional, of []string, read func(newest deploylog.Event) (body T, event int64, err error)) (*answer[T], error) {
	newest, err := s.newest(ctx)
	if err != nil {
		return nil, err
	}
	out := &answer[T]{Status: http.StatusOK, ETag: s.tag(newest.Seq, of...), Cache: revalidated}
	if in.names(out.ETag) {
		out.Status = http.StatusNotModified
		return out, nil
	}
	body, event, err := read(newest)
	if err != nil {
		return nil, refused(err)
	}
	out.ETag, out.Body = s.tag(event, of...), body
	return out.unless(in), nil
}

// stated is an answer that also follows from something else, such as the time: only it itself
// says whether it is another one. event is the last that may have changed it.
func stated[T any](ctx context.Context, s *Server, in Conditional, read func(newest deploylog.Event) (body T, event int64, err error)) (*answer[T], error) {
	newest, err := s.newest(ctx)
	if err != nil {
		return nil, err
	}
	body, event, err := read(newest)
	if err != nil {
		return nil, refused(err)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	out := &answer[T]{Status: http.StatusOK, ETag: s.tag(event, string(text)), Cache: revalidated, Body: body}
	return out.unless(in), nil
}

// unless is the answer, which is not sent to who has it.
func (a *answer[T]) unless(in Conditional) *answer[T] {
	if strings.TrimSpace(in.IfNoneMatch) == "*" || in.names(a.ETag) {
		a.Status = http.StatusNotModified
	}
	return a
}

// tag is the ETag of an answer that follows from the log up to an event. It begins with the
// number of that, for If-Match.
func (s *Server) tag(event int64, of ...string) string {
	return fmt.Sprintf(`"%d-%s"`, event, hashed(append([]string{s.Log.ID(), fmt.Sprint(event), s.Version}, of...)...))
}

// names reports whether an ETag is among those that who asks has.
func (c Conditional) names(tag string) bool {
	for one := range strings.SplitSeq(c.IfNoneMatch, ",") {
		if strings.TrimPrefix(strings.TrimSpace(one), "W/") == tag {
			return true
		}
	}
	return false
}
