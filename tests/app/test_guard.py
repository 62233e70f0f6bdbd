"""The guard before the page, and the socket it listens at."""

import asyncio
import socket

import pytest

from textmover.app.server import LARGEST, Guard, host_name, is_loopback, listen, names_of_this_computer, url_of
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


LAN = frozenset({"ratings", "ratings.local", "proxy.example"})
"""Names of a computer that others of a network may ask."""


def ask(path, *, names=None, kind="http", method="POST", body=b"{}", chunks=1, **headers):
    """Status and headers of an answer."""
    sent = []
    given = {"host": "127.0.0.1:7860", **headers}
    scope = {
        "type": kind,
        "path": path,
        "method": method,
        "server": ("192.0.2.1", 7860),
        "headers": [
            (name.replace("_", "-").encode(), one.encode("latin-1"))
            for name, value in given.items()
            for one in ([value] if isinstance(value, str) else value)
        ],
    }
    messages = [{"type": "http.request", "body": body, "more_body": place + 1 < chunks} for place in range(chunks)]

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(Guard(behind, names=names, inputs={0: 2})(scope, receive, send))
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


@pytest.mark.parametrize(
    ("host", "alone", "lan"),
    [
        ("127.0.0.1:7860", 200, 200), ("127.0.0.1", 200, 200), ("localhost:7860", 200, 200), ("LOCALHOST", 200, 200),
        ("[::1]:7860", 200, 200), ("[::1]", 200, 200), ("[0:0:0:0:0:0:0:1]:80", 200, 200),
        ("192.0.2.1:7860", 403, 200),  # where the request came in
        ("ratings:7860", 403, 200), ("Ratings.local", 403, 200), ("proxy.example", 403, 200),
        ("192.0.2.2:7860", 403, 403), ("evil.com", 403, 403), ("evil.com:7860", 403, 403), ("0.0.0.0:7860", 403, 403),
        ("[::1].evil.com", 403, 403), ("[::1]evil.com:7860", 403, 403), ("[::1]:7860.evil.com", 403, 403),
        ("[127.0.0.1]", 403, 403), ("::1", 403, 403), ("[evil.com]", 403, 403), ("[", 403, 403), ("[]:80", 403, 403),
        ("127.0.0.1.evil.com", 403, 403), ("127.0.0.1:7860@evil.com", 403, 403), ("evil.com#127.0.0.1", 403, 403),
        ("evil.com/127.0.0.1", 403, 403), ("localhost.evil.com", 403, 403), ("ratings.evil.com", 403, 403),
        ("127.0.0.1 ", 403, 403), ("127.0.0.1:", 403, 403), ("127.0.0.1:x", 403, 403), ("127.0.0.1:123456", 403, 403),
        ("localhost\n", 403, 403), ("loc\xe4lhost", 403, 403), ("2130706433", 403, 403), ("0x7f.1", 403, 403),
        ("", 403, 403), (["127.0.0.1", "evil.com"], 403, 403), (["evil.com", "127.0.0.1"], 403, 403), ([], 403, 403),
    ],
)  # fmt: skip
def test_hosts(host, alone, lan):
    """A name that is made to mean 127.0.0.1 would let a page of another site read and rate."""
    assert status("/", host=host) == alone
    assert status("/", host=host, names=LAN) == lan


@pytest.mark.parametrize(
    ("origin", "host", "expected"),
    [
        ("http://127.0.0.1:7860", "127.0.0.1:7860", 200), ("https://proxy.example", "proxy.example", 200),
        ("http://ratings:7860", "ratings:7860", 200), ("http://[::1]:7860", "[::1]:7860", 200),
        ("http://evil.com", "127.0.0.1:7860", 403), ("http://evil.com", "proxy.example", 403),
        ("null", "127.0.0.1:7860", 403), ("", "127.0.0.1:7860", 403), ("127.0.0.1:7860", "127.0.0.1:7860", 403),
        ("ftp://127.0.0.1:7860", "127.0.0.1:7860", 403), ("http://127.0.0.1:7860.evil.com", "127.0.0.1:7860", 403),
        ("http://127.0.0.1", "127.0.0.1:7860", 403), ("http://evil.com://127.0.0.1:7860", "127.0.0.1:7860", 403),
        ("http://evil.com", "evil.com", 403), ("http://[::1].evil.com", "[::1].evil.com", 403),
        (["http://127.0.0.1:7860", "http://evil.com"], "127.0.0.1:7860", 403),
    ],
)  # fmt: skip
def test_origins(origin, host, expected):
    assert status("/gradio_api/queue/join", origin=origin, host=host, names=LAN) == expected


def test_names_of_this_computer():
    names = names_of_this_computer("192.0.2.7", ["Proxy.Example", "2001:DB8:0::1"])
    assert {socket.gethostname().lower(), "192.0.2.7", "proxy.example", "2001:db8::1"} <= names
    assert all(host_name(f"[{one}]" if ":" in one else one) == one for one in names)
    for wrong in ("http://proxy.example", "proxy.example:80", "[::1]", "", "a b"):
        with pytest.raises(InputError, match="Expected `--allow-host` to be a name or an address"):
            names_of_this_computer("192.0.2.7", [wrong])


def test_endless_requests_are_refused():
    long = b'"' + b"x" * 600_000 + b'"'
    assert status("/gradio_api/queue/join", content_length=str(LARGEST + 1)) == 413
    assert status("/gradio_api/queue/join", content_length="-1") == 413
    assert status("/gradio_api/queue/join", body=b" " * 600_000, chunks=4) == 413
    assert ask("/gradio_api/queue/join", body=long)[1]["body"] == long


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"data": ' + b"[" * 50_000 + b"]" * 50_000 + b', "fn_index": 0}', "levels"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "levels"),
        (b"", "to be JSON"), (b"hello", "to be JSON"), (b'{"data": ["\xff"]}', "to be JSON"),
        (b'{"data": [1, ' + b"9" * 5000 + b'], "fn_index": 0}', "to be JSON"),
        (b'{"data": [1, "\\ud800"], "fn_index": 0}', "half a surrogate pair"),
        (b'{"data": [1, 2]}', "another request"), (b'{"data": [1, 2], "fn_index": "0"}', "another request"),
        (b'{"data": [1, 2], "fn_index": 1}', "another request"), (b'{"data": [1], "fn_index": 0}', "another request"),
        (b'{"data": "ab", "fn_index": 0}', "another request"),
        (b'{"data": [1, 2], "fn_index": 0, "batched": true}', "another request"),
    ],
)  # fmt: skip
def test_requests_that_gradio_cannot_read_are_refused_in_a_sentence(body, said):
    start, end = ask("/gradio_api/run/predict", body=body)
    assert start["status"] == 400
    assert end["body"].startswith(b"Expected ")
    assert said in end["body"].decode()
    assert status("/gradio_api/run/predict", body=b'{"data": [1, 2], "fn_index": 0}') == 200


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
