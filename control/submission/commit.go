package submission

import (
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/worktree"
)

// checkout is the commit of git that the workspace is at, and what it says of the sources.
type checkout struct {
	at       *worktree.Tree // nil is none
	opened   bool           // it was looked for
	copied   bool           // there are sources
	modified bool           // some of them are not the commit's
}

// tree finds the commit that the workspace is at, once.
func (s *collecting) tree() *worktree.Tree {
	if !s.opened {
		s.opened = true
		s.at = worktree.Open(s.ctx, s.Inputs.Workspace)
	}
	return s.at
}

// source is the commit as the sources are of it; nil where there are none, or it is not known.
func (s *checkout) source() *record.Source {
	if !s.copied || s.at == nil {
		return nil
	}
	return &record.Source{Repository: s.at.Repository, Commit: s.at.Commit, Exact: !s.modified}
}
