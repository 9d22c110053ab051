#!/usr/bin/env bash
# Argo CD 3.2.11 is the newest release that can be built from its Go module. The one of 3.2.12 does not
# compile, and those of 3.3.0 and later replace gitops-engine with a directory of the repository: that
# is a module of its own, which the archive leaves out, and which has no release at the version named.
#
# The script looks for the function that 3.2.12 lacks, and asks for the engine of 3.5.7. It fails if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
cd "$work"
module=github.com/argoproj/argo-cd/v3
declared() { # VERSION: how often the function is used, and how often it is declared
  go mod download "$module@$1"
  local of
  of=$(go env GOMODCACHE)/$module@$1
  echo "used $(grep -rhoE --include='*.go' 'settings\.ValidateExternalURL\(' "$of" | wc -l), declared $(grep -rhE --include='*.go' '^func ValidateExternalURL\(' "$of" | wc -l)"
}
engine() { # VERSION
  go mod download "$module@$1"
  sed -n 's,.*\(github.com/argoproj/argo-cd/gitops-engine\) \(v.*\),\1@\2,p' "$(go env GOMODCACHE)/cache/download/$module/@v/$1.mod"
}
older=$(declared v3.2.11) newer=$(declared v3.2.12) needs=$(engine v3.5.7)
released=yes
go mod download "$needs" >/dev/null 2>&1 || released=no
echo "settings.ValidateExternalURL of 3.2.11: $older; of 3.2.12: $newer"
echo "3.5.7 needs $needs, which has a release: $released"
[ "$older" = 'used 0, declared 0' ] && [ "$newer" = 'used 1, declared 0' ] && [ "$released" = no ] || { echo "the modules have changed" >&2; exit 1; }
