"""Which addresses count as one network: what pairing limits and the approval page compare."""

import ipaddress


def network_of(ip: str, ipv4_bits: int = 24, ipv6_bits: int = 56) -> str:
    """Return the network of an address, the address itself where it is none."""
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        return ip
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    bits = ipv4_bits if address.version == 4 else ipv6_bits
    return str(ipaddress.ip_network(f"{address}/{bits}", strict=False))


def counted_address(ip: str) -> str:
    """Return what limits for one address count: an IPv6 host may choose among all of its /64."""
    return network_of(ip, ipv4_bits=32, ipv6_bits=64)


def is_loopback(host: str) -> bool:
    """Tell whether a host name means this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
