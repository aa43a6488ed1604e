"""`varve web` as a child process, and requests to it."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import time
import urllib.parse

import mounted
import numpy as np

TYPES = {"f32": "<f4", "f64": "<f8", "u16": "<u2"}


class Web:
    """The program on a mounted directory or a store; `with` ends it by SIGTERM, which must succeed."""

    def __init__(self, path, *options):
        self.process = subprocess.Popen(
            [mounted.BINARY, "web", *options, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=mounted._die_with_parent,
        )
        ready, _, _ = select.select([self.process.stdout], [], [], 60)
        self.url = self.process.stdout.readline().decode().strip() if ready else ""
        if not self.url:
            self.process.kill()
            raise mounted.Failure(f"varve web told no address: {self.process.stderr.read().decode()}")
        address, _, self.token = self.url.partition("/#")
        self.port = int(address.rpartition(":")[2])

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise mounted.Failure("varve web does not end by SIGTERM") from None
        if problem[0] is None:
            mounted.equal(status, 0, "varve web ends by SIGTERM, its exit status")

    def get(self, what, headers=None, **parameters):
        """(status, headers, body) of a request with the token, unless `headers` are given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        query = "?" + urllib.parse.urlencode(parameters) if parameters else ""
        connection.request("GET", what + query, headers=self.authorization() if headers is None else headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, response.headers, body

    def authorization(self):
        return {"Authorization": f"Bearer {self.token}"}

    def json(self, what, wanted=200, **parameters):
        status, _, body = self.get(f"/api/{what}", **parameters)
        if status != wanted:
            raise mounted.Failure(f"{what} {parameters}: status {status}, wanted {wanted}: {body[:300]}")
        return json.loads(body)

    def slice(self, path, array, at, rows=None, columns=None, **more):
        """The numbers of a slice; rows and columns: (axis, start, stop, step)."""
        parameters = {"path": path, "array": array, "at": ",".join(map(str, at)), "type": "f64", **more}
        for name, axis in (("rows", rows), ("columns", columns)):
            if axis is not None:
                parameters[name] = ":".join(map(str, axis))
        status, headers, body = self.get("/api/slice", **parameters)
        if status != 200:
            raise mounted.Failure(f"slice {parameters}: status {status}: {body[:300]}")
        values = np.frombuffer(body, TYPES[parameters["type"]])
        return values.reshape(int(headers["X-Varve-Rows"]), int(headers["X-Varve-Columns"]))

    def raw(self, data, half_close=False, timeout=30):
        """What comes back for these bytes until the connection ends."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            found = b""
            try:
                while piece := connection.recv(65536):
                    found += piece
            except ConnectionResetError:
                pass
            return found

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_until(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        if time.monotonic() > deadline:
            return found
        time.sleep(0.05)
    return found
