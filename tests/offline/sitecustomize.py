"""Forbids the network to every Python that has this folder on its path: the tests', and those they start.

Loopback stays open: notebooks talk to their kernel over it, and it leads nowhere else.
"""

import ipaddress
import socket


def _local(host):
    if host in (None, "", b"", "localhost", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else host.split("%")[0]).is_loopback
    except ValueError:
        return False


def _guard(connect):
    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _local(address[0]):
            raise OSError(f"the network is forbidden in tests: {address}")
        return connect(self, address)

    return guarded


def _resolve(getaddrinfo):
    def guarded(host, *arguments, **options):
        if not _local(host):
            raise OSError(f"the network is forbidden in tests: {host}")
        return getaddrinfo(host, *arguments, **options)

    return guarded


if not hasattr(socket, "network_forbidden"):
    socket.network_forbidden = True
    socket.socket.connect = _guard(socket.socket.connect)
    socket.socket.connect_ex = _guard(socket.socket.connect_ex)
    socket.getaddrinfo = _resolve(socket.getaddrinfo)
