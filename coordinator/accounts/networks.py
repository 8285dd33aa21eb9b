"""Which addresses count as one network: what pairing limits and the approval page compare."""

import ipaddress


def network_of(ip: str) -> str:
    """Return the network of an address: /24 for IPv4, /56 for IPv6, the address itself where it is none."""
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        return ip
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    bits = 24 if address.version == 4 else 56
    return str(ipaddress.ip_network(f"{address}/{bits}", strict=False))


def is_loopback(host: str) -> bool:
    """Tell whether a host name means this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
