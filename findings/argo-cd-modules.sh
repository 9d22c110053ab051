#!/usr/bin/env bash
# The patch release Argo CD 3.2.12 does not compile as a Go module: it calls settings.ValidateExternalURL,
# which nothing in it declares. 3.2.11 does not call it, and compiles.
#
# The script looks for the calls and the declaration in both. It fails if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
cd "$work"
module=github.com/argoproj/argo-cd/v3
declared() { # VERSION: how often the function is called, and how often it is declared
  go mod download "$module@$1"
  local of
  of=$(go env GOMODCACHE)/$module@$1
  echo "called $(grep -rhoE --include='*.go' 'settings\.ValidateExternalURL\(' "$of" | wc -l), declared $(grep -rhE --include='*.go' '^func ValidateExternalURL\(' "$of" | wc -l)"
}
older=$(declared v3.2.11) newer=$(declared v3.2.12)
echo "settings.ValidateExternalURL in 3.2.11: $older; in 3.2.12: $newer"
[ "$older" = 'called 0, declared 0' ] && [ "$newer" = 'called 1, declared 0' ] || { echo "the modules have changed" >&2; exit 1; }
