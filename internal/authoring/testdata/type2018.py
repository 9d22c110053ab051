"""A type as those of 2018 were: subcommands of one program, indented answers, a schema of
draft 04 that does not name it, actions whose arguments are their names with underscores,
and nothing of what the protocol has gained since."""
import argparse
import json
import pathlib
import sys

PLUG = pathlib.Path("/plug/root")

SCHEMA = {
    "type": "object",
    "required": ["path", "content"],
    "additionalProperties": False,
    "definitions": {
        "DAY": {"oneOf": [
            {"type": "string", "enum": ["Saturday", "Sunday"]},
            {"type": "integer", "minimum": 1, "maximum": 7, "exclusiveMaximum": False},
        ]},
    },
    "properties": {
        "path": {"type": "string", "pattern": "^(?!\\.)[^/]+$"},
        "content": {"type": "string"},
        "load": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1, "exclusiveMaximum": True},
        "timeout_ms": {"type": "integer", "minValue": 1000},
        "day": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/DAY"}]},
    },
}


def file(request):
    return PLUG / request["config"]["path"]


def init(request):
    print(json.dumps({
        "plugs": {"root": {"container_path": str(PLUG), "optional": False, "writable": True}},
        "config_schema": SCHEMA,
        "state_action": {"args": ["state"]},
    }))


def action(name, description):
    return {"name": name, "description": description, "args": [name.replace("-", "_")]}


def state(request):
    config = request["config"]
    if request["verbose"]:
        print("looking at", file(request), file=sys.stderr)
    if not file(request).exists():
        answer = {"status": "STALE", "actions": [action("create-file", "Create '%s'" % config["path"])]}
    else:
        found = {"path": config["path"], "content": file(request).read_text(), "etag": None}
        if found["content"] == config["content"]:
            answer = {"status": "VALID", "state": found}
        else:
            answer = {"status": "STALE", "staleState": found, "actions": [action("update-file", "Update '%s'" % config["path"])]}
    print(json.dumps(answer, indent=2))


def create_file(request):
    assert request["staleState"] == {}
    file(request).write_text(request["config"]["content"])


def update_file(request):
    assert request["staleState"]["path"] == request["config"]["path"]
    file(request).write_text(request["config"]["content"])


def main():
    request = json.loads(sys.stdin.read())
    parser = argparse.ArgumentParser(description="Resource %s" % request["name"])
    parsers = parser.add_subparsers()
    for step in (init, state, create_file, update_file):
        parsers.add_parser(step.__name__).set_defaults(step=step)
    parser.parse_args(sys.argv[1:] or ["init"]).step(request)


main()
