"""The guard before the page, and the socket it listens at."""

import asyncio
import socket

import pytest

from textmover.app.server import LARGEST, Guard, is_loopback, listen, url_of
from textmover.types import InputError


async def behind(scope, receive, send):
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def ask(path, *, loopback=True, kind="http", body=b"", chunks=1, **headers):
    """Status and headers of an answer."""
    sent = []
    given = {"host": "127.0.0.1:7860", **headers}
    scope = {
        "type": kind,
        "path": path,
        "headers": [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in given.items()],
    }
    messages = [{"type": "http.request", "body": body, "more_body": place + 1 < chunks} for place in range(chunks)]

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(Guard(behind, loopback=loopback)(scope, receive, send))
    return sent


def status(*arguments, **named):
    return ask(*arguments, **named)[0].get("status")


@pytest.mark.parametrize("path", ["/", "/config", "/assets/index.js", "/gradio_api/queue/join", "/alive", "/theme.css"])
def test_what_the_page_needs_is_open(path):
    assert status(path) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file=/etc/passwd", "/file=items.json", "/gradio_api/file/x", "/gradio_api/upload", "/upload",
        "/gradio_api/proxy=http://example.org", "/gradio_api/call/predict", "/gradio_api/runs",
        "/gradio_api/vibe-edit/", "/gradio_api/process_recording", "/gradio_api/stream/x", "/monitoring", "/login",
        "/gradio_api/mcp/sse",
        "/gradio_api/deep_link", "/gradio_api/openapi.json", "/custom_component/a/b/c/d", "/docs", "/openapi.json",
        "/assets/../../../etc/passwd", "/static/..\\x", "/assets/a\0b", "//etc/passwd", "",
    ],
)  # fmt: skip
def test_everything_else_is_shut(path):
    assert status(path) == 404


def test_pages_of_other_sites_are_refused():
    assert status("/", host="evil.example:7860") == 403  # a name that was made to mean 127.0.0.1
    assert status("/", host="") == 403
    assert status("/", host="evil.example", loopback=False) == 200
    assert status("/gradio_api/queue/join", origin="http://evil.example") == 403
    assert status("/gradio_api/queue/join", origin="null") == 403
    assert status("/gradio_api/queue/join", origin="http://evil.example", loopback=False, host="192.0.2.1:80") == 403
    assert status("/gradio_api/queue/join", origin="http://127.0.0.1:7860") == 200
    for host in ("localhost:7860", "[::1]:7860", "127.0.0.1"):
        assert status("/", host=host) == 200


def test_endless_requests_are_refused():
    assert status("/gradio_api/queue/join", content_length=str(LARGEST + 1)) == 413
    assert status("/gradio_api/queue/join", content_length="-1") == 413
    assert ask("/gradio_api/queue/join", body=b"x" * 600_000, chunks=4) == []
    assert status("/gradio_api/queue/join", body=b"x" * 600_000, chunks=3) == 200


def test_web_sockets_are_closed():
    assert ask("/gradio_api/queue/join", kind="websocket")[0]["type"] == "websocket.close"


def test_the_browser_is_told_to_ask_for_nothing_elsewhere():
    for path in ("/", "/alive", "/file=x"):
        headers = dict(ask(path)[0]["headers"])
        assert headers[b"content-security-policy"].startswith(b"default-src 'self';")
        assert b"http" not in headers[b"content-security-policy"]


def test_each_start_has_another_name():
    assert ask("/alive")[1]["body"] != ask("/alive")[1]["body"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("192.168.1.4", False), ("127.0.0.1.evil.example", False), ("", False)],
)  # fmt: skip
def test_loopback(host, expected):
    assert is_loopback(host) is expected


def test_listening():
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert url_of(first) == f"http://127.0.0.1:{port}/"
        with pytest.raises(InputError, match=f"port {port} to be free.*--port 0"):
            listen("127.0.0.1", port)
    with listen("127.0.0.1", port):  # free again at once
        pass
    with listen("0.0.0.0", 0) as everywhere:
        assert socket.gethostname() in url_of(everywhere)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70000), ("127.0.0.1", -1), ("999.1.1.1", 0), ("", 70000)])
def test_what_cannot_be_listened_at_is_refused(host, port):
    with pytest.raises(InputError, match=r"Expected `--(host|port)`"):
        listen(host, port)
