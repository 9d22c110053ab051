#!/bin/sh
# Builds a package with the make and the compiler that it was given.
set -eu
"$DEPLOYSTER_DEPENDENCIES/make/bin/make" "$1"
echo "package=$1" >"$DEPLOYSTER_METADATA"
echo "built $1 of $(ls "src/$1" | wc -l) files"
