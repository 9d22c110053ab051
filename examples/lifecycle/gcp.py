"""The resource types acme/deployster-gcp-disk and acme/deployster-gcp-vm.

One image implements both: the request says which type is meant. The cloud is
simulated in a directory, the plug "cloud", with one JSON file for each thing.
"""

import json
import os
import sys

CLOUD = "/plug/cloud"
ACCOUNT = "/plug/gcp_service_account.json"
DEFAULT_ZONE = "europe-west1-b"

TEXT = {"type": "string", "minLength": 1}
KINDS = {
    "disk": {"required": ["name", "size"], "properties": {"name": TEXT, "size": TEXT, "zone": TEXT}},
    "vm": {"required": ["name", "machine-type"], "properties": {"name": TEXT, "machine-type": TEXT, "zone": TEXT}},
}
# What can be changed of a thing that exists; the rest needs a new one.
CHANGEABLE = {"disk": "size", "vm": "machine-type"}


def init(kind):
    return {
        "plugs": {
            "gcp_service_account_file": {"container_path": ACCOUNT, "writable": False},
            "cloud": {"container_path": CLOUD, "writable": True},
        },
        "config_schema": {"type": "object", "additionalProperties": False, **KINDS[kind]},
        "state_action": {"args": ["state"]},
    }


def path(kind, config):
    return os.path.join(CLOUD, f"{kind}-{os.path.basename(config['name'])}.json")


def load(kind, config):
    try:
        with open(path(kind, config), encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return None


def desired(config):
    with open(ACCOUNT, encoding="utf-8") as f:
        project = json.load(f)["project_id"]
    return {"zone": DEFAULT_ZONE, **config, "project": project}


def state(kind, config):
    found, wanted = load(kind, config), desired(config)
    if found is None:
        return {"status": "STALE", "actions": [
            {"name": f"create-{kind}", "description": f"Create {kind} {config['name']}", "args": ["create"]},
        ]}
    if found == wanted:
        return {"status": "VALID", "state": found}
    key = CHANGEABLE[kind]
    if {**found, key: wanted[key]} != wanted:
        sys.exit(f"{kind} {config['name']} is in another zone or project; nothing but its {key} can be changed")
    return {"status": "STALE", "staleState": found, "actions": [
        {"name": f"update-{kind}-{key}", "description": f"Update {kind} {key}", "args": [f"--{key}={wanted[key]}"]},
    ]}


def store(kind, config, thing):
    temp = path(kind, config) + ".new"
    with open(temp, "w", encoding="utf-8") as f:
        json.dump(thing, f, indent=2)
        f.write("\n")
    os.replace(temp, path(kind, config))


def main():
    request = json.load(sys.stdin)
    kind = "vm" if request["type"].startswith("acme/deployster-gcp-vm") else "disk"
    args = sys.argv[1:]
    if not args:
        json.dump(init(kind), sys.stdout)
        return
    config = request["config"]
    if args == ["state"]:
        json.dump(state(kind, config), sys.stdout)
    elif args == ["create"]:
        store(kind, config, desired(config))
        print(f"created {kind} {config['name']} in zone {desired(config)['zone']}")
    else:
        key, _, value = args[0].removeprefix("--").partition("=")
        store(kind, config, {**load(kind, config), key: value})
        print(f"{key} of {kind} {config['name']} is now {value}")


if __name__ == "__main__":
    main()
