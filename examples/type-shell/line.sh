#!/bin/sh
# A resource type: a line that a file must have.
#
# Deployster runs this image three ways (docs/protocol.md), each time with one
# JSON document on stdin:
#
#   no arguments   "init": say what is needed and how to ask for the state
#   state          say whether the resource is as configured; change nothing
#   add            the action that state asks for when it is not
#
# On stdout goes the answer and nothing else; what people should read goes to
# stderr. Only actions may print whatever they like.
set -eu

root=/plug/files # where the plug appears in the container

# The schema admits no character that JSON would write in another way, no
# quotes and no braces. That is what makes value(), below, right.
init() {
  cat <<'JSON'
{
  "plugs": {"files": {"container_path": "/plug/files", "writable": true}},
  "config_schema": {
    "type": "object",
    "additionalProperties": false,
    "required": ["file", "line"],
    "properties": {
      "file": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
      "line": {"type": "string", "pattern": "^[A-Za-z0-9 ._:/@=-]+$"}
    }
  },
  "state_action": {"args": ["state"]}
}
JSON
}

# value NAME prints a text of the configuration in $input.
value() {
  printf '%s' "$input" | sed -n 's/.*"config":{\([^}]*\)}.*/\1/p' | sed -n 's/.*"'"$1"'":"\([^"]*\)".*/\1/p'
}

state() {
  # What cannot be read is an error, not a missing line: never answer STALE
  # for a reason that the action cannot cure.
  if [ -e "$root/$file" ] && ! [ -r "$root/$file" ]; then
    echo "cannot read $file" >&2
    exit 1
  fi
  number=$(grep -nxF -e "$line" "$root/$file" 2>/dev/null | head -n 1 | cut -d: -f1)
  if [ -n "$number" ]; then
    printf '{"status":"VALID","state":{"file":"%s","line":"%s","number":%s}}\n' "$file" "$line" "$number"
  else
    printf '{"status":"STALE","actions":[{"name":"add","description":"add a line to %s","args":["add"]}]}\n' "$file"
  fi
}

# add may have been interrupted before, so it looks first.
add() {
  if grep -qxF -e "$line" "$root/$file" 2>/dev/null; then
    echo "$file has the line already"
    return
  fi
  # Other lines may be added to the file at this very moment, by other containers.
  # One write that appends loses none of them, as replacing the file would.
  printf '%s\n' "$line" >>"$root/$file"
  echo "added a line to $file"
}

input=$(cat)
if [ $# -eq 0 ]; then
  init
  exit
fi
file=$(value file)
line=$(value line)
if [ -z "$file" ] || [ -z "$line" ]; then
  echo "there is no configuration with file and line on stdin" >&2
  exit 1
fi
case $1 in
  state) state ;;
  add) add ;;
  *)
    echo "unknown action $1" >&2
    exit 1
    ;;
esac
