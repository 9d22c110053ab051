"""A resource type: one setting in a JSON file.

Deployster runs this image three ways (docs/protocol.md), each time with one
JSON document on stdin:

    no arguments   "init": say what is needed and how to ask for the state
    state          say whether the resource is as configured; change nothing
    set            the action that state asks for when it is not

On stdout goes the answer and nothing else; what people should read goes to
stderr. Only actions may print whatever they like.
"""

import fcntl
import json
import os
import sys

ROOT = "/plug/settings"  # where the plug appears in the container

INIT = {
    "plugs": {"settings": {"container_path": ROOT, "writable": True}},
    # Deployster checks configurations with this before anything is applied.
    "config_schema": {
        "type": "object",
        "additionalProperties": False,
        "required": ["file", "key", "value"],
        "properties": {
            "file": {"type": "string", "pattern": r"^[A-Za-z0-9_-]+\.json$"},
            "key": {"type": "string", "minLength": 1},
            "value": {"type": ["string", "number", "boolean", "array", "object"]},
        },
    },
    "state_action": {"args": ["state"]},
}


def load(path):
    """The settings in a file; none when there is no file."""
    try:
        with open(path, encoding="utf-8") as f:
            settings = json.load(f)
    except FileNotFoundError:
        return {}
    if not isinstance(settings, dict):
        sys.exit(f"{path} holds {type(settings).__name__}, not an object")
    return settings


def state(config, path):
    """VALID with the state, or STALE with what there is and what to do."""
    settings = load(path)
    found = {"file": config["file"], "key": config["key"], "value": settings.get(config["key"])}
    action = {
        "name": "set",
        "description": f"set {config['key']} in {config['file']}",
        "args": ["set"],  # the same image, with this argument
    }
    if config["key"] not in settings:
        return {"status": "STALE", "actions": [action]}  # without staleState: it does not exist
    if found["value"] != config["value"]:
        return {"status": "STALE", "staleState": found, "actions": [action]}
    return {"status": "VALID", "state": found}


def write(config, path):
    """Replace the file as a whole: a run that is killed leaves the old one.

    Other settings may be set in the file at this very moment, by other
    containers: from reading to replacing it, one of them has the lock.
    """
    with open(path + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released with the file, however this ends
        settings = load(path)
        settings[config["key"]] = config["value"]
        temp = path + ".new"  # one name, under the lock: what an interrupted run left is overwritten
        with open(temp, "w", encoding="utf-8") as f:
            json.dump(settings, f, indent=2, sort_keys=True)
            f.write("\n")
            f.flush()
            os.fsync(f.fileno())
        os.replace(temp, path)
    print(f"set {config['key']} to {json.dumps(config['value'])}")


def main():
    request = json.load(sys.stdin)
    action = sys.argv[1] if len(sys.argv) > 1 else "init"
    if action == "init":
        json.dump(INIT, sys.stdout)
        return
    config = request["config"]
    path = os.path.join(ROOT, config["file"])
    if action == "state":
        json.dump(state(config, path), sys.stdout)
    elif action == "set":
        write(config, path)
    else:
        sys.exit(f"unknown action {action!r}")  # on stderr, and exit code 1


if __name__ == "__main__":
    main()
