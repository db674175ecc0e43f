"""Which addresses are public, in every notation."""

import ipaddress

import pytest

from holdfast.core.net import is_public

PUBLIC = [
    "93.184.216.34",
    "2606:2800:220:1::1",
    "::ffff:93.184.216.34",
    "64:ff9b::5db8:d822",
    "2002:5db8:d822::1",
    "192.0.1.1",
    "168.63.129.17",
]
METADATA = [
    "169.254.169.254",  # most clouds
    "168.63.129.16",  # Azure
    "192.0.0.192",  # Oracle
    "100.100.100.200",  # Alibaba
    "fd00:ec2::254",  # AWS
    "fd20:ce::254",  # Google
    "fd00:c1::a9fe:a9fe",  # Oracle
    "fe80::a9fe:a9fe",  # OpenStack
]
PRIVATE = [
    "10.0.0.1",
    "100.64.0.1",
    "192.88.99.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "0.0.0.0",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b:1::7f00:1",
    "fec0::1",
    "ff02::1",
    "100::1",
    "3fff::1",
    "5f00::1",
    "2001:db8::1",
    "2001:20::1",
]


def carriers(address: str) -> list[str]:
    """An IPv4 address inside IPv6 ones: mapped, NAT64, 6to4, and both parts of Teredo."""
    value = int(ipaddress.IPv4Address(address))
    server, client = 0x5DB8D822, value ^ 0xFFFFFFFF
    teredo = (0x20010000 << 96) | (server << 64) | client
    served = (0x20010000 << 96) | (value << 64) | (server ^ 0xFFFFFFFF)
    sixtofour = (0x2002 << 112) | (value << 80) | 1
    numbers = ((0xFFFF << 32) | value, (0x64FF9B << 96) | value, sixtofour, teredo, served)
    return [str(ipaddress.IPv6Address(number)) for number in numbers]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", [*METADATA, *PRIVATE])
def test_private_addresses_and_metadata_services_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    [each for address in [*METADATA, *PRIVATE] if ":" not in address for each in carriers(address)],
)
def test_an_address_inside_another_is_no_way_around(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
