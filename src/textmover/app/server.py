"""HTTP server of the page: binds one address, allows only needed routes, and checks the Host header."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import re
import secrets
import socket
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from textmover.safe_reading import load_json
from textmover.types import InputError
from textmover.types.word_splitting import SURROGATE

if TYPE_CHECKING:
    import gradio as gr

HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]+))(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
"""Pattern of an address or name with an optional port."""


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this computer.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str | None:
    """Return the address or name of a host without port, in lower case; ``None`` if it is invalid.

    Example:
        >>> host_name("[::1]:80"), host_name("Example.org"), host_name("[::1].example.org")
        ('::1', 'example.org', None)
    """
    match = HOST.fullmatch(host)
    if match is None:
        return None
    name = (match[1] or match[2]).lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None if match[1] else name
    return str(address) if (address.version == 6) == bool(match[1]) else None


def names_of_this_computer(listening: str, further: Iterable[str] = ()) -> frozenset[str]:
    """Return the names of this computer in the network, the address it listens on, and ``further`` names."""
    short = socket.gethostname().lower()
    names = {short, short.partition(".")[0], f"{short.partition('.')[0]}.local", socket.getfqdn().lower()}
    for host in (listening, *further):
        name = host_name(f"[{host}]" if ":" in host else host)
        if name is None:
            raise InputError(
                f"Expected `--allow-host` to be a name or an address, but got {host!r}: leave scheme and port out."
            )
        names.add(name)
    return frozenset(names)


ALIVE = "/alive"  # the page checks here that the server has not been restarted

OPEN = ("/", ALIVE, "/config", "/theme.css", "/favicon.ico", "/robots.txt", "/manifest.json", "/gradio_api/info",
        "/gradio_api/startup-events", "/gradio_api/queue/join", "/gradio_api/queue/data", "/gradio_api/run/predict",
        "/gradio_api/reset", "/gradio_api/cancel")  # fmt: skip
OPEN_BELOW = ("/assets/", "/static/", "/svelte/", "/gradio_api/heartbeat/")
"""Allowed routes. Gradio has others, which read files, accept uploads and fetch URLs."""

LARGEST = 2_000_000  # most bytes of a request
TOO_LARGE = f"Expected a request of at most {LARGEST:,} bytes, but got a larger one."

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
        "frame-src 'self' blob:; frame-ancestors 'none'; base-uri 'self'; form-action 'self'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}
"""Headers that keep the browser from loading from or sending to other sites, whatever a text contains."""

OWN_HEADERS = {"cache-control": "no-store", **HEADERS}


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    if not 0 <= port <= 65535:
        raise InputError(f"Expected `--port` to be from 0 to 65535, but got {port}: 0 takes any that is free.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        code = getattr(error, "errno", None)
        if code == errno.EADDRINUSE:
            reason = f"Expected port {port} to be free, but another program uses it: choose another one with --port, "
            raise InputError(f"{reason}or any that is free with --port 0.") from error
        if code in (errno.EACCES, errno.EPERM):
            raise InputError(f"Expected permission to use port {port}, but got none: choose one above 1023.") from error
        raise InputError(
            f"Expected `--host` to be an address of this computer, but got {host!r}: 127.0.0.1 is usual."
        ) from error


def url_of(listening: socket.socket) -> str:
    """Return the URL of the page."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class Guard:
    """ASGI middleware that passes only requests that the page needs."""

    def __init__(
        self, application: ASGIApp, *, names: Collection[str] | None, inputs: Mapping[int, int] | None = None
    ) -> None:
        self._application, self._names, self._inputs = application, names, inputs
        self._run = secrets.token_hex(8)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            self._check_request(scope)
            if scope["path"] == ALIVE:
                await JSONResponse({"run": self._run}, headers=OWN_HEADERS)(scope, receive, send)
                return
            if scope["method"] not in ("GET", "HEAD"):
                receive = self._check_body(await _body(receive), receive)
            await self._application(scope, receive, _with_headers(send))
        except HTTPException as refused:
            await PlainTextResponse(refused.detail, refused.status_code, OWN_HEADERS)(scope, receive, send)

    def _check_request(self, scope: Scope) -> None:
        """Refuse requests for another host, from another site, that are too large, or for other routes."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        host = hosts[0] if len(hosts) == 1 else ""
        name = host_name(host)
        own_name = self._names is not None and (name in self._names or name == (scope.get("server") or ("",))[0])
        if name is None or not (is_loopback(name) or own_name):
            raise HTTPException(
                403,
                f"Expected an address or a name of this computer, but got {host[:100]!r}: start the app with "
                "`--allow-host` for another name.",
            )
        if any(origin not in (f"http://{host}", f"https://{host}") for origin in headers.getlist("origin")):
            raise HTTPException(403, "Expected a request of this page, but got one of another site.")
        for length in headers.getlist("content-length"):
            if not length.isdecimal() or len(length) > 20 or int(length) > LARGEST:
                raise HTTPException(413, TOO_LARGE)
        path = scope["path"]
        allowed = path in OPEN or path.rstrip("/") in OPEN or path.startswith(OPEN_BELOW)
        if not allowed or ".." in path or "\\" in path or "\0" in path:
            raise HTTPException(404, "not here")

    def _check_body(self, body: bytes, receive: Receive) -> Receive:
        """Check that Gradio can read the body of a request; return a function that receives the body again."""
        try:
            request = load_json(body, "a request")
        except InputError as error:
            raise HTTPException(400, str(error)) from error
        if SURROGATE.search(json.dumps(request, ensure_ascii=False)):
            raise HTTPException(400, "Expected Unicode text, but got half a surrogate pair.")
        if isinstance(request, dict) and "data" in request and self._inputs is not None:
            function, data = request.get("fn_index"), request["data"]
            expected = self._inputs.get(function) if isinstance(function, int) else None
            if expected is None or request.get("batched") or not isinstance(data, list) or len(data) != expected:
                raise HTTPException(
                    400, "Expected something that this page does, but got another request: load it again."
                )
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive_again() -> Message:
            return next(messages, None) or await receive()

        return receive_again


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST:
            raise HTTPException(413, TOO_LARGE)
        if not message.get("more_body"):
            return body


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return sending


def make_application(page: gr.Blocks, options: dict[str, Any], *, names: Collection[str] | None) -> ASGIApp:
    """Return the page as an ASGI application behind :class:`Guard`."""
    import gradio as gr
    from fastapi import FastAPI

    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    inputs = {number: len(act.inputs) for number, act in page.fns.items()}
    return Guard(gr.mount_gradio_app(application, page, path="/", **options), names=names, inputs=inputs)


def serve(application: ASGIApp, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve requests until interrupted; call ``ready`` once the server has started."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

    config = uvicorn.Config(
        application,  # type: ignore[arg-type]
        log_level="critical",
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,  # open pages keep a connection open
    )
    Server(config).run(sockets=[listening])


def private_temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a private folder for the temporary files of Gradio, which by default go to a shared one.

    Call this before Gradio is imported.
    """
    folder = tempfile.TemporaryDirectory(prefix="textmover-app-")
    os.environ["GRADIO_TEMP_DIR"] = folder.name
    return folder
