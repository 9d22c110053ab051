package pullrequest

import (
	"context"
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/internal/pullrequest/remote"
)

// ValueIn is the value that a commit has at a place. It fails where a place has several values that
// differ.
func (c *Client) ValueIn(ctx context.Context, p Place, commit string) (text string, err error) {
	may := func(context.Context) error { return errors.New("a value is only read") }
	err = c.with(ctx, p, may, func(ctx context.Context, s *session) error {
		s.where = fmt.Sprintf("in commit %.10s", commit)
		branches, err := s.repository.Branches(ctx)
		var commits []*remote.Commit
		if err == nil {
			commits, err = branches.Read(ctx, s.files(), remote.Hash(commit))
		}
		if err != nil {
			return fmt.Errorf("reading commit %.10s: %w", commit, err)
		}
		if text, err = s.has(commits[0], ""); err != nil {
			return err
		}
		if other, err := s.has(commits[0], text); err != nil || other != text {
			return errors.Join(err, fmt.Errorf("the values differ: one is %.60q, and another one %.60q", text, other))
		}
		return nil
	})
	return text, err
}
