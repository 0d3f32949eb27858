"""Runs in the container of a trial, which has no network: sends its input to a port of the container,
and prints what comes back.

    python3 connect.py PORT
"""

import os
import socket
import sys
from threading import Thread


def main(port: int) -> None:
    try:
        server = socket.create_connection(("127.0.0.1", port))
    except ConnectionRefusedError:
        sys.exit(1)

    def send() -> None:
        while data := os.read(0, 65536):
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)

    Thread(target=send, daemon=True).start()
    while data := server.recv(65536):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
