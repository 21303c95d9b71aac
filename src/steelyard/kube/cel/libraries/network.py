"""IP addresses, networks and URLs."""

from __future__ import annotations

import ipaddress
import re
from typing import ClassVar, Final, TypeAlias
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from steelyard.frozen import frozen
from steelyard.kube import fields
from steelyard.kube.cel.functions import declare
from steelyard.kube.cel.problems import EvaluationError

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@frozen
class IP:
    kind: ClassVar[str] = "net.IP"
    address: _Address


@frozen
class CIDR:
    kind: ClassVar[str] = "net.CIDR"
    address: _Address
    bits: int

    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.bits), strict=False)


@frozen
class URL:
    kind: ClassVar[str] = "kubernetes.URL"
    parts: SplitResult


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_mapped(address: _Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _ip(text: str) -> IP:
    quoted = fields.quote(text)
    address = _address(text)
    if address is None:
        why = f"ParseAddr({quoted}): unable to parse IP"
        raise EvaluationError(f"IP Address {quoted} parse error during conversion from string: {why}")
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        raise EvaluationError(f"IP address {quoted} with zone value is not allowed")
    if _is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted} is not allowed")
    return IP(address)


def _cidr(text: str) -> CIDR:
    host, slash, bits = text.partition("/")
    problem = "network address parse error during conversion from string: "
    address = _address(host) if "%" not in host else None
    quoted = fields.quote(text)
    if not slash:
        raise EvaluationError(f"{problem}{problem}netip.ParsePrefix({quoted}): no '/'")
    if address is None:
        why = f"ParseAddr({fields.quote(host)}): unable to parse IP"
        raise EvaluationError(f"{problem}{problem}netip.ParsePrefix({quoted}): {why}")
    if re.fullmatch(r"0|[1-9]\d{0,2}", bits, re.ASCII) is None:
        raise EvaluationError(
            f"{problem}{problem}netip.ParsePrefix({quoted}): bad bits after slash: {fields.quote(bits)}"
        )
    if int(bits) > address.max_prefixlen:
        raise EvaluationError(f"{problem}{problem}netip.ParsePrefix({quoted}): prefix length out of range")
    if _is_mapped(address):
        raise EvaluationError(f"{problem}IPv4-mapped IPv6 address {quoted} is not allowed")
    return CIDR(address, int(bits))


def _is(parse: object, text: str) -> bool:
    assert callable(parse)
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


def _is_global_unicast(ip: IP) -> bool:
    address = ip.address
    is_broadcast = address == ipaddress.IPv4Address("255.255.255.255")
    excluded = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not is_broadcast and not excluded


def _is_link_local_multicast(ip: IP) -> bool:
    address = ip.address
    if address.version == 4:
        return address in ipaddress.IPv4Network("224.0.0.0/24")
    return (int(address) >> 112) & 0xFF0F == 0xFF02


def _contains_ip(cidr: CIDR, ip: IP) -> bool:
    return cidr.address.version == ip.address.version and ip.address in cidr.network()


def _contains_cidr(cidr: CIDR, other: CIDR) -> bool:
    return cidr.bits <= other.bits and _contains_ip(cidr, IP(other.address))


def _masked(cidr: CIDR) -> CIDR:
    return CIDR(cidr.network().network_address, cidr.bits)


_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def url_problem(text: str) -> str:
    """What Go says of a text that is no absolute URI and no absolute path; nothing if it is one."""
    quoted = fields.quote(text)
    if _CONTROL.search(text):
        return f"parse {quoted}: net/url: invalid control character in URL"
    if not text:
        return f"parse {quoted}: empty url"
    if not text.startswith("/") and _SCHEME.match(text) is None:
        if text.startswith(":"):
            return f"parse {quoted}: missing protocol scheme"
        return f"parse {quoted}: invalid URI for request"
    bad = re.search(r"%(?![0-9A-Fa-f]{2}).{0,2}", text.partition("?")[0])
    if bad is not None:
        return f"parse {quoted}: invalid URL escape {fields.quote(bad[0])}"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return (
            f"parse {quoted}: invalid port {fields.quote(':' + text.rpartition(':')[2].partition('/')[0])} after host"
        )
    if " " in parts.netloc:
        return f'parse {quoted}: invalid character " " in host name'
    return ""


def _url(text: str) -> URL:
    problem = url_problem(text)
    if problem:
        raise EvaluationError(f"URL parse error during conversion from string: {problem}")
    return URL(urlsplit(text))


def _host(url: URL) -> str:
    return unquote(url.parts.netloc.rpartition("@")[2])


def _hostname(url: URL) -> str:
    host = _host(url)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(url: URL) -> str:
    return _host(url).rpartition("]")[2].partition(":")[2]


def _escaped_path(url: URL) -> str:
    from urllib.parse import quote

    return quote(url.parts.path, safe="/%!$&'()*+,;=:@~[]-._")


OVERLOADS: Final = (
    declare("ip(string) ip", _ip),
    declare("isIP(string) bool", lambda text: _is(_ip, text)),
    declare("ip.isCanonical(string) bool", lambda text: str(_ip(text).address) == text),
    declare("ip -> family() int", lambda ip: ip.address.version),
    declare("ip -> isUnspecified() bool", lambda ip: ip.address.is_unspecified),
    declare("ip -> isLoopback() bool", lambda ip: ip.address.is_loopback),
    declare("ip -> isLinkLocalMulticast() bool", _is_link_local_multicast),
    declare("ip -> isLinkLocalUnicast() bool", lambda ip: ip.address.is_link_local),
    declare("ip -> isGlobalUnicast() bool", _is_global_unicast),
    declare("string(ip) string", lambda ip: str(ip.address)),
    declare("cidr(string) cidr", _cidr),
    declare("isCIDR(string) bool", lambda text: _is(_cidr, text)),
    declare("cidr -> containsIP(string) bool", lambda cidr, text: _contains_ip(cidr, _ip(text))),
    declare("cidr -> containsIP(ip) bool", _contains_ip),
    declare("cidr -> containsCIDR(string) bool", lambda cidr, text: _contains_cidr(cidr, _cidr(text))),
    declare("cidr -> containsCIDR(cidr) bool", _contains_cidr),
    declare("cidr -> ip() ip", lambda cidr: IP(cidr.address)),
    declare("cidr -> prefixLength() int", lambda cidr: cidr.bits),
    declare("cidr -> masked() cidr", _masked),
    declare("string(cidr) string", lambda cidr: f"{cidr.address}/{cidr.bits}"),
    declare("url(string) url", _url),
    declare("isURL(string) bool", lambda text: not url_problem(text)),
    declare("url -> getScheme() string", lambda url: url.parts.scheme),
    declare("url -> getHost() string", _host),
    declare("url -> getHostname() string", _hostname),
    declare("url -> getPort() string", _port),
    declare("url -> getEscapedPath() string", _escaped_path),
    declare("url -> getQuery() map(string, list(string))",
            lambda url: parse_qs(url.parts.query, keep_blank_values=True)),
)  # fmt: skip
