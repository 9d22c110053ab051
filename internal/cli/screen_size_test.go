package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/internal/query/querytest"
)

// On a terminal of 80 cells and 24 lines everything is at most that, also of a log of thousands
// of events; what is piped, and --all, is everything.
func TestEverythingFitsTheTerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t, three)
	log, err := sqlite.Open(t.Context(), filepath.Join(s.dir, "large.db"), sqlite.Options{})
	require.NoError(t, err)
	if _, err := log.Append(t.Context(), querytest.Large(40, 30)...); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, log.Close())
	inventory := "hosts:\n"
	for i := range 60 {
		inventory += "  - {name: h" + strings.Repeat("0", i) + ", engine: oci, attributes: {stack: prod}}\n"
	}
	s.write("inventory.yaml", inventory)
	for _, tc := range []struct {
		command, want string
		all           int // lines of it with --all, at least
	}{
		{"log list", " earlier events: --all shows them, --last N so many", 10_000},
		{"log list --target environment/shop/prod", " earlier events: --all", 60},
		{"log list --target pipeline/gateway --event pipeline-defined", "pipeline-defined", 0},
		{"log list --since 2029-12-31 --event host-deployed --utc", "", 0},
		{"log latest pipeline/gateway", " earlier: --all", 25},
		{"log runs", "no runs", 0},
		{"host list", " more rows: --all shows them", 61},
		{"pipeline list", "gateway", 0},
		{"pipeline status", "gateway", 24},
		{"pipeline history gateway", " earlier rows: --all", 31},
		{"pipeline explain gateway", " more: --all", 24},
		{"pipeline explain host/gateway/wave17/wave17-h1", "", 0},
		{"pipeline explain stage/gateway/wave05", "", 0},
		{"pipeline show gateway r30", "\n    sha256:0a0a", 0},
		{"pipeline diff gateway r29 r30", "do not differ", 0},
		{"env list", "shop/prod", 0},
		{"env status", "shop/prod", 24},
		{"env show shop/prod", "\n#   the revision.\n", 0},
		{"env history shop/prod", " earlier rows: --all", 31},
		{"env revisions shop/prod", " earlier rows: --all", 31},
		{"env explain shop/prod", "web-h", 14},
	} {
		args := append([]string{"--log", "large.db"}, strings.Fields(tc.command)...)
		screen, code := s.sized(&pty.Winsize{Rows: 24, Cols: 80}, "", args...)
		screen = strings.TrimRight(strings.ReplaceAll(ansi.Strip(screen), "\r", ""), "\n") + "\n"
		lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
		if code != 0 || len(lines) > 23 || !strings.Contains(screen, tc.want) {
			t.Errorf("%s exits with %d and takes %d lines:\n%s", tc.command, code, len(lines), screen)
		}
		for _, line := range lines {
			if w := ansi.StringWidth(line); w > 80 {
				t.Errorf("%s: %d cells: %s", tc.command, w, line)
			}
		}
		if tc.all == 0 {
			continue
		}
		if piped := s.deployster(args...); strings.Count(piped, "\n") < min(tc.all, 13) || strings.Contains(tc.want, "--all") && strings.Contains(piped, tc.want) {
			t.Errorf("piped, %s is\n%.2000s", tc.command, piped)
		}
		all, _ := s.sized(&pty.Winsize{Rows: 24, Cols: 80}, "", append(args, "--all")...)
		if n := strings.Count(all, "\n"); n < tc.all || strings.Contains(tc.want, "--all") && strings.Contains(all, tc.want) {
			t.Errorf("%s --all is %d lines, want %d:\n%.2000s", tc.command, n, tc.all, all)
		}
	}
}
