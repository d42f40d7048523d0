"""Stand in for Python: `relay.py SOCKET ARGUMENTS` has the server of tests/processes.py run them.

The process that the server forks has the arguments, environment, folder and streams of this one,
and gets its signals; this one ends as that one does. If this one is killed, so is that one.
"""

import json
import os
import signal
import socket
import sys

SIGNALS = signal.SIGHUP, signal.SIGINT, signal.SIGTERM

signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect(sys.argv[1])
for number in SIGNALS:
    signal.signal(number, lambda number, _: server.send(bytes([number])))
request = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)])
socket.send_fds(server, [request.encode()], [0, 1, 2])
signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
code = int(server.recv(16))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
