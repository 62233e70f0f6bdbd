"""Hosts by which the page may be asked for."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from textmover.types import InputError

HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]+))(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
"""Address or name, with a port or without."""


def is_loopback(host: str) -> bool:
    """Return whether only this computer reaches an address.

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
    """Address or name of a host without its port, in lower case; ``None`` if it is not one.

    Example:
        >>> host_name("[::1]:80"), host_name("Example.org"), host_name("[::1].example.org")
        ('::1', 'example.org', None)
    """
    found = HOST.fullmatch(host)
    if found is None:
        return None
    name = (found[1] or found[2]).lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None if found[1] else name
    return str(address) if (address.version == 6) == bool(found[1]) else None


def names_of_this_computer(listening: str, further: Iterable[str] = ()) -> frozenset[str]:
    """Names by which computers of a network ask for this one, and its addresses as far as the names have them."""
    short = socket.gethostname().lower()
    names = {short, short.partition(".")[0], f"{short.partition('.')[0]}.local", socket.getfqdn().lower()}
    for one in (listening, *further):
        found = host_name(f"[{one}]" if ":" in one else one)
        if found is None:
            raise InputError(
                f"Expected `--allow-host` to be a name or an address, but got {one!r}: leave scheme and port out."
            )
        names.add(found)
    return frozenset(names)
