#!/usr/bin/env python3
"""Answers expressions as Python's Jinja2 does, one batch a line.

The first line of the input holds the variables and the files that templates can include; each further line is a list
of templates, answered by a line with a list of answers: {"value": ...}, {"error": "the exception's name"}, or
{"skip": "why"} where there is no answer that another program could give. What
JSON has no form for is tagged: {"$": "inf"}, and {"$pairs": [[key, value]]}
for a mapping whose keys are not all text.
"""

import faulthandler
import gc
import json
import math
import re
import resource
import signal
import sys

import jinja2

import record

MEMORY = 1 << 30
SECONDS = 2.0  # of processor time, for one template
BATCH_SECONDS = 300  # after which this program gives up
LARGEST = 100_000  # characters of an answer


class TooMuch(BaseException):
    """No `except Exception` of Jinja2's may take it for something else."""


def stop(*_):
    raise TooMuch


def tagged(value):
    if isinstance(value, jinja2.Undefined):
        return str(value)  # raises: it is strict
    if isinstance(value, float) and not math.isfinite(value):
        return {"$": str(value)}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {str(key): tagged(v) for key, v in value.items()}
        return {"$pairs": [[tagged(key), tagged(v)] for key, v in value.items()]}
    if hasattr(value, "__iter__"):
        return [tagged(v) for v in value]
    return {"$": type(value).__name__}


def answer(env, source, variables):
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        if source.startswith("{{") and source.endswith("}}"):
            compiled = env.compile_expression("(" + source[2:-2] + ")", undefined_to_none=False)
            value = tagged(compiled(**variables))
        else:
            value = env.from_string(source).render(**variables)
            if re.search(r"<[^<>]* at 0x[0-9a-f]+>", value):
                return {"skip": "an address of memory"}
        text = json.dumps({"value": value}, ensure_ascii=True)
        return {"skip": "a large answer"} if len(text) > LARGEST else text
    except (TooMuch, MemoryError, RecursionError) as problem:
        return {"skip": type(problem).__name__}
    except Exception as problem:  # every exception is an answer
        return {"error": type(problem).__name__}
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGVTALRM, stop)
    gc.disable()
    env = record.environment()
    start = json.loads(sys.stdin.readline())
    env.loader = jinja2.DictLoader(start["files"])
    variables = json.dumps(start["vars"])
    print(json.dumps(jinja2.__version__), flush=True)
    for line in sys.stdin:
        # What does not return to the interpreter no signal can stop.
        faulthandler.dump_traceback_later(BATCH_SECONDS, exit=True)
        gc.collect(1)
        # Some filters change what they are given, so each template has its own.
        answers = (answer(env, source, json.loads(variables)) for source in json.loads(line))
        print("[" + ",".join(a if isinstance(a, str) else json.dumps(a) for a in answers) + "]", flush=True)


if __name__ == "__main__":
    main()
