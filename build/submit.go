package build

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

func (c Submit) propose(s *State, now time.Time) ([]deploylog.Event, error) { return nil, nil }

func (c Cancel) propose(s *State, now time.Time) ([]deploylog.Event, error) { return nil, nil }

func (c Retry) propose(s *State, now time.Time) ([]deploylog.Event, error) { return nil, nil }
