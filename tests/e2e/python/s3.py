"""An S3 server for the tests: says the port that it listens on, and ends with its standard input."""

import sys

from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
_, port = server.get_host_and_port()
print(port, flush=True)
sys.stdin.read()
server.stop()
