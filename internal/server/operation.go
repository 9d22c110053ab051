package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/query"
)

// Operation is one that the API has, and who may do it.
type Operation struct {
	ID, Method, Path string
	Summary          string
	Description      string
	Role             identity.Role
	Kind             string // of what the path parameter name names; "" is what concerns all there is

	maxBody int64
	streams bool                      // it ends when who asked has enough
	tags    []string                  // what it is about
	answers map[string]*huma.Response // which the types do not say
	body    *huma.RequestBody         // which the types do not say
	timeout time.Duration             // 0 is that of all
}

// Operations are all that the API has.
func (s *Server) Operations() []Operation { return slices.Clone(s.operations) }

// register adds an operation. Nothing else does, so that none is without its role.
func register[I, O any](s *Server, op Operation, handle func(context.Context, *I) (*O, error)) {
	s.operations = append(s.operations, op)
	limit := op.maxBody
	if limit == 0 {
		limit = maxBody
	}
	h := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description,
		MaxBodyBytes: limit, BodyReadTimeout: -1, Tags: op.tags,
		Errors:   []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusInternalServerError},
		Metadata: map[string]any{"role": op.Role},
		Extensions: map[string]any{
			"x-role": string(op.Role),
		},
		Responses: op.answers, SkipValidateBody: op.body != nil, // who handles it decodes it
	}
	h.Middlewares = huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		if !mayDo(identity.Of(ctx.Context()), op, ctx.Param("name")) {
			_ = huma.WriteErr(s.api, ctx, http.StatusForbidden, op.forbidden())
			return
		}
		r, w := humago.Unwrap(ctx)
		if kind := r.Header.Get("Content-Type"); op.body != nil && op.body.Content["application/json"] != nil && kind != "" && r.ContentLength != 0 && !isJSON(kind) {
			_ = huma.WriteErr(s.api, ctx, http.StatusUnsupportedMediaType, fmt.Sprintf("the Content-Type is %.100q: send the body as application/json", kind))
			return
		}
		if limit > maxBody && (r.ContentLength < 0 || r.ContentLength > maxBody) { // only so many of them fit into the memory
			free, cancel := context.WithTimeout(ctx.Context(), timeout)
			defer cancel()
			leave, ok := s.large.Take(free, identity.Of(ctx.Context()).Name)
			if !ok {
				_ = huma.WriteErr(s.api, ctx, http.StatusTooManyRequests, "as much is sent already as fits at once, by others or by you: send it again later")
				return
			}
			defer leave()
		}
		receive(w, r)
		next(s.mayWait(ctx, op, r, w))
	}}
	huma.Register(s.api, h, func(ctx context.Context, in *I) (*O, error) {
		if !op.streams { // the time begins when all of the request has come
			within, cancel := context.WithTimeout(ctx, cmp.Or(op.timeout, timeout))
			defer cancel()
			ctx = within
		}
		defer begin(ctx)()
		out, err := handle(ctx, in)
		return out, s.answer(ctx, op, err)
	})
	if op.body == nil {
		return
	}
	for _, described := range []*huma.Operation{s.api.OpenAPI().Paths[op.Path].Post, s.api.OpenAPI().Paths[op.Path].Put} {
		if described != nil && described.OperationID == op.ID {
			described.RequestBody = op.body
		}
	}
}

// anyKind is what those may do who have the role for anything: it records nothing by itself.
const anyKind = "*"

// mayDo reports whether a caller may do an operation with what has a name.
func mayDo(who identity.Identity, op Operation, name string) bool {
	if op.Kind != anyKind {
		return who.May(op.Role, op.Kind, name)
	}
	return slices.ContainsFunc(who.Grants, func(g identity.Grant) bool { return g.Role.Includes(op.Role) })
}

// isJSON reports whether a media type is that of JSON, which is in UTF-8.
func isJSON(kind string) bool {
	name, params, err := mime.ParseMediaType(kind)
	charset, given := params["charset"]
	return err == nil && name == "application/json" && (!given || strings.EqualFold(charset, "utf-8"))
}

// forbidden says which role a caller lacks for an operation.
func (op Operation) forbidden() string {
	lacks := "you may not do this: it needs the role " + string(op.Role)
	switch op.Kind {
	case identity.Pipelines, identity.Environments:
		return lacks + " for this " + strings.TrimSuffix(op.Kind, "s")
	case anyKind:
		return lacks
	default:
		return lacks + " for everything"
	}
}

// answer is an error as the API says it.
func (s *Server) answer(ctx context.Context, op Operation, err error) error {
	var said huma.StatusError
	var headed huma.HeadersError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &headed):
		return err
	case errors.As(err, &said):
		out := s.outward(said)
		if out.Error() != said.Error() {
			s.Logger.Info("a request was refused", "operation", op.ID, "error", said.Error())
		}
		return hidden(ctx, out)
	case errors.Is(err, query.ErrNotFound):
		return hidden(ctx, s.outward(because(huma.Error404NotFound(err.Error()), err)))
	case isKept(err) != nil:
		kept := isKept(err)
		s.Logger.Warn("a request was not carried out: "+kept.Holder("another process"), "operation", op.ID, "by", kept.By)
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("nothing was recorded, because "+kept.Holder(holderFor(ctx, kept.By))+": send it again when that has gone on or ended"), http.Header{"Retry-After": {"5"}})
	case ctx.Err() != nil:
		return huma.NewError(http.StatusGatewayTimeout, "it took too long")
	}
	s.Logger.Error("a request failed", "operation", op.ID, "error", err)
	switch {
	case errors.Is(err, deploylog.ErrUnwritten):
		return huma.Error503ServiceUnavailable("it could not be written, as where the disk of the server is full: free what is missing, which the log of the server says, and start it again; then look whether this was recorded, and send it again where it was not")
	case errors.Is(err, deploylog.ErrPoisoned):
		return huma.Error503ServiceUnavailable("nothing can be recorded before the server is started again, as where its disk is full: free what is missing, which the log of the server says, and send it again then")
	}
	return huma.Error500InternalServerError("it failed; the log of the server says why")
}

// isKept returns why something was not recorded, where another process keeps the turn to write.
func isKept(err error) *deploylog.KeptError {
	kept, _ := errors.AsType[*deploylog.KeptError](err)
	return kept
}

// caused is an answer with the error from which it has its text.
type caused struct {
	huma.StatusError
	cause error
}

// because returns an answer whose text has that of an error in it.
func because(said huma.StatusError, cause error) huma.StatusError { return &caused{said, cause} }

// outward is an answer without places on the machine of the server.
func (s *Server) outward(said huma.StatusError) huma.StatusError {
	var paths []string
	if c, is := said.(*caused); is {
		said, paths = c.StatusError, s.systemPaths(c.cause)
	}
	model, is := said.(*huma.ErrorModel)
	if !is {
		return said
	}
	out := *model
	out.Detail = withoutFiles(s.outside(withoutPaths(out.Detail, paths)))
	out.Errors = slices.Clone(out.Errors)
	for i, e := range out.Errors {
		detail := *e
		detail.Message = withoutFiles(s.outside(detail.Message))
		out.Errors[i] = &detail
	}
	return &out
}

// systemPaths are the absolute paths that system calls failed with in an error and all that it wraps, longest first. Those
// in the directories whose contents the API names are not among them.
func (s *Server) systemPaths(err error) (paths []string) {
	var visit func(err error)
	visit = func(err error) {
		switch e := err.(type) { //nolint:errorlint // all that it wraps is visited
		case *fs.PathError:
			paths = append(paths, e.Path)
		case *os.LinkError:
			paths = append(paths, e.Old, e.New)
		case *exec.Error:
			paths = append(paths, e.Name)
		}
		switch e := err.(type) { //nolint:errorlint // as above
		case interface{ Unwrap() error }:
			visit(e.Unwrap())
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				visit(one)
			}
		}
	}
	visit(err)
	paths = slices.DeleteFunc(paths, func(path string) bool { return len(path) < 2 || !filepath.IsAbs(s.outside(path)) })
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may begin with another
	return slices.Compact(paths)
}

// withoutPaths returns a text in which some paths have no names, as they are and in quotes.
func withoutPaths(text string, paths []string) string {
	for _, path := range paths {
		for _, form := range []string{strconv.Quote(path), path} {
			var out strings.Builder
			for {
				before, after, found := strings.Cut(text, form)
				out.WriteString(before)
				if text = after; !found {
					break
				}
				if form == path && isWithin(before, after) {
					out.WriteString(form)
				} else {
					out.WriteString(serverFile)
				}
			}
			text = out.String()
		}
	}
	return text
}

// isWithin reports whether what lies between two texts is a part of a longer path.
func isWithin(before, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(after, ".")) // a dot also ends a sentence
	part := func(r rune) bool {
		return unicode.IsLetter(r) && r != utf8.RuneError || unicode.IsDigit(r) || strings.ContainsRune("_-/", r)
	}
	return part(last) || last == '.' || part(next)
}

// serverFile stands for the path of a file.
const serverFile = "a file of the server"

// systemFile is the absolute path in an error of a system call of this process, such as "open /etc/x:
// permission denied", also with spaces in it or in quotes. A path that a caller sent, such as that of a plug, is in no such error.
var systemFile = pattern.Lazy(`\b((?:open|openat|stat|lstat|read|readdirent|readlink|write|mkdir|mkdirat|remove|unlink|unlinkat|rename|link|symlink|chmod|chown|chtimes|truncate|flock|fork/exec|exec:|dial unix|listen unix) )(?:"/(?:[^"\\]|\\.)*"|/(?:[^:\n]|:[^ \n])+)(: )`)

// withoutFiles returns a text in which the files of system calls have no names: where they lie is of no use
// to a caller elsewhere. The log of the server has them.
func withoutFiles(text string) string {
	return systemFile().ReplaceAllString(text, "${1}"+serverFile+"$2")
}

// outside returns what has a text name nothing of some directories but what lies in them, from there.
func outside(dirs []string) func(text string) string {
	dirs = slices.Clone(dirs)
	for i, dir := range dirs {
		dirs[i] = strings.TrimRight(dir, "/")
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" })
	if len(dirs) == 0 {
		return func(text string) string { return text }
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may be in another
	for i, dir := range dirs {
		quoted, escaped := strconv.Quote(dir), (&url.URL{Path: dir}).EscapedPath() // as %q and addresses have it
		dirs[i] = regexp.QuoteMeta(dir) + "|" + regexp.QuoteMeta(quoted[1:len(quoted)-1]) + "|" + regexp.QuoteMeta(escaped)
	}
	below := regexp.MustCompile(`(^|[^\pL\pN._/-]|//)(?:` + strings.Join(dirs, "|") + `)/`)
	itself := regexp.MustCompile(`(^|[^\pL\pN._/-]|//)(?:` + strings.Join(dirs, "|") + `)([^\pL\pN._-]|[.]?$)`)
	return func(text string) string {
		return itself.ReplaceAllString(below.ReplaceAllString(text, "$1"), "${1}its directory$2")
	}
}

// problem is a document that says why a request was refused.
func problem(status int, detail string) ([]byte, error) {
	return json.Marshal(huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail})
}
