"""A local server in place of all publishers."""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


class Publishers(ThreadingHTTPServer):
    """Files by HOST/PATH; what was asked for is noted as (path, first byte)."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.asked, self.cut, self.ranges, self.versions = {}, [], {}, True, True

    def publish(self, one, files):
        self.files |= {one.address.partition("://")[2] + path: content for path, content in files.items()}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        path, server = self.path.lstrip("/").partition("?")[0], self.server
        content = server.files.get(path)
        start = int(self.headers.get("Range", "bytes=0-")[6:-1]) if server.ranges else 0
        version = f'"{hash(content)}"'
        if self.headers.get("If-Range", version) not in (version, f"W/{version}"):
            start = 0
        server.asked.append((path, start))
        if content is None or (start and start >= len(content)):
            self.send_error(404 if content is None else 416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if server.versions:
            self.send_header("ETag", f"W/{version}" if server.versions == "weak" else version)
        self.end_headers()
        self.wfile.write(content[start : server.cut.pop(path, None)])  # less than was announced: the connection is cut

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def publishers(monkeypatch, tmp_path):
    """The server, and an empty folder of sets, `tmp_path / "sets"`."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("TEXTMOVER_DATA", str(tmp_path / "sets"))
    with Publishers() as server:
        monkeypatch.setenv("TEXTMOVER_DATA_MIRROR", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
