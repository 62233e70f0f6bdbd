"""The server: bound to one address, and open for what the page needs alone."""

from __future__ import annotations

import errno
import ipaddress
import os
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from textmover.types import InputError

if TYPE_CHECKING:
    import gradio as gr

__all__ = ["Guard", "is_loopback", "listen", "make_application", "serve", "url_of"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

ALIVE = "/alive"
"""Where the page asks whether the server is still the same."""

OPEN = ("/", ALIVE, "/config", "/theme.css", "/favicon.ico", "/robots.txt", "/manifest.json", "/gradio_api/info",
        "/gradio_api/startup-events", "/gradio_api/queue/join", "/gradio_api/queue/data", "/gradio_api/run/predict",
        "/gradio_api/reset", "/gradio_api/cancel")  # fmt: skip
OPEN_BELOW = ("/assets/", "/static/", "/svelte/", "/gradio_api/heartbeat/")
"""What the page asks for. Gradio has more: routes that read files, take uploads and fetch from elsewhere."""

LARGEST = 2_000_000
"""Bytes of a request."""

HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
        b"frame-src 'self' blob:; frame-ancestors 'none'; base-uri 'self'; form-action 'self'; object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
"""Whatever a text may hold, the browser fetches nothing from elsewhere and sends nothing there."""


def is_loopback(host: str) -> bool:
    """Whether only this computer reaches an address.

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


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        host: Address or name of this computer.
        port: From 0 to 65535; 0 takes any that is free.

    Raises:
        InputError: If the port is in use or may not be used, or the host is not this computer.
    """
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
            raise InputError(
                f"Expected to be allowed to use port {port}, but am not: choose one above 1023."
            ) from error
        raise InputError(
            f"Expected `--host` to be an address of this computer, but got {host!r}: 127.0.0.1 is usual."
        ) from error


def url_of(listening: socket.socket) -> str:
    """The page's address."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class Guard:
    """Lets through what the page needs, and nothing else.

    Args:
        application: What answers.
        loopback: Whether only this computer may ask: then the name that it is asked by has to be one of this computer,
            so that a page of another site cannot take the place of ours.
    """

    def __init__(self, application: Application, *, loopback: bool) -> None:
        self._application, self._loopback = application, loopback
        self._run = secrets.token_hex(8)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse to."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refused = self._refused(scope)
        if refused is not None:
            await _answer(send, refused, b"text/plain", b"not here")
        elif scope["path"] == ALIVE:
            await _answer(send, 200, b"application/json", f'{{"run": "{self._run}"}}'.encode())
        else:
            await self._application(scope, _limited(receive), _with_headers(send))

    def _refused(self, scope: Scope) -> int | None:
        """The status of a refusal, if it is one."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if self._loopback and not is_loopback(_name(host)):
            return 403
        origin = headers.get(b"origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403
        length = headers.get(b"content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST:
            return 413
        path = scope["path"]
        known = path in OPEN or path.rstrip("/") in OPEN or path.startswith(OPEN_BELOW)
        return None if known and ".." not in path and "\\" not in path and "\0" not in path else 404


def _name(host: str) -> str:
    """A host without its port."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _limited(receive: Receive) -> Receive:
    """Ends a request that is larger than it may be, also where it does not say how large it is."""
    seen = 0

    async def limited() -> MutableMapping[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= LARGEST else {"type": "http.disconnect"}

    return limited


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
        await send(message)

    return sending


async def _answer(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"cache-control", b"no-store"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def make_application(page: gr.Blocks, options: dict[str, Any], *, loopback: bool) -> Application:
    """What answers: the page behind its guard.

    Args:
        page: Gradio's blocks.
        options: How they are mounted.
        loopback: Whether only this computer may ask.
    """
    import gradio as gr
    from fastapi import FastAPI

    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    return Guard(gr.mount_gradio_app(application, page, path="/", **options), loopback=loopback)


def serve(application: Application, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until somebody ends it.

    Args:
        application: What answers.
        listening: Where.
        ready: Called once it does.

    Raises:
        KeyboardInterrupt: After Ctrl-C, when all is put away.
    """
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
        timeout_graceful_shutdown=1,  # pages keep a connection open for as long as they are
    )
    Server(config).run(sockets=[listening])


def private_temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for what Gradio writes on its own, in place of one that all users of the computer share.

    It has to be made before Gradio is imported.
    """
    folder = tempfile.TemporaryDirectory(prefix="textmover-app-")
    os.environ["GRADIO_TEMP_DIR"] = folder.name
    return folder
