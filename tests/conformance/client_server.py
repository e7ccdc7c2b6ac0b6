"""Runs scripts of one client, each in a fork of a process that has the client's library imported.

A library may take seconds to import. The client's interpreter runs this file with the name of the
library. A line of its input is a JSON list: the simulator's address, and for each script its file
and the files for its output and its failures. The scripts run at the same time. The answer is a
line with their exit codes. It ends with its input.
"""

import gc
import importlib
import json
import os
import runpy
import sys


def run(address: str, script: str, output: str, failures: str) -> None:
    """Run a script in this process, as the interpreter does with the address as its argument."""
    for number, path in enumerate((os.devnull, output, failures)):
        opened = os.open(path, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = [script, address]
    runpy.run_path(script, run_name="__main__")


def main() -> None:
    importlib.import_module(sys.argv[1])
    gc.freeze()  # looking at it would copy its pages in every fork
    for line in sys.stdin:
        address, *scripts = json.loads(line)
        children = []
        for files in scripts:
            child = os.fork()
            if child == 0:
                run(address, *files)
                return
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


if __name__ == "__main__":
    main()
