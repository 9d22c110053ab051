"""Runs scripts, each in a process that is forked from this one, which has loaded their modules.

A message on the socket that is stdin is a list of JSON, [arguments, directory, environment], and
brings the files that are stdin, stdout and stderr of the process, and one for the answer: its
process id, and, when it has ended, its wait status.
"""

import array
import contextlib
import functools
import io
import json
import os
import random
import runpy
import signal
import socket
import sys
import tempfile
import threading
import traceback


def script(files, argv, directory, environment):
    """Makes this process the one that runs the script."""
    for target, source in enumerate(files):
        os.dup2(source, target)
    os.closerange(3, 64)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    sys.argv = argv
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    runpy.run_path(argv[0], run_name="__main__")
    sys.exit(0)


def main():
    requests = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        if not message:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            child = os.fork()
            if child == 0:
                script(files[:3], *json.loads(message))
            for file in files[:3]:
                os.close(file)
            os.write(files[3], b"%d\n" % child)
            os.write(files[3], b"%d\n" % os.waitpid(child, 0)[1])
            os._exit(0)
        for file in files:
            os.close(file)


main()
