"""A penstock command that another process runs (see ``example_shell.py``), as if it were this one.

It has this one's arguments, folder, environment and standard streams, receives its signals, and
this one ends as it does. Little is imported, and no pathlib, so that it begins at once.
"""

import _socket
import array
import marshal
import os
import signal
import sys

name, *words = sys.argv[1:]
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
server.connect(f"\0{name}")
request = marshal.dumps((words, os.getcwd(), dict(os.environ)))  # noqa: PTH109
streams = array.array("i", [0, 1, 2])
server.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
program = marshal.loads(server.recv(64))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda received, _: os.kill(program, received))
code = marshal.loads(server.recv(64))
sys.exit(code if code >= 0 else 128 - code)
