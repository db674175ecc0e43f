"""The addresses of this machine: public ones among them are out of reach, too."""

import subprocess
import sys
import textwrap

import pytest

_NAMESPACE = ["unshare", "--map-root-user", "--net"]
_ATTACK = """
    import asyncio, contextlib, fcntl, ipaddress, pathlib, socket, struct, sys
    from aiohttp import web
    from holdfast.system import addresses
    from holdfast.system.addresses import is_external

    V4, V6, ELSEWHERE = "93.184.216.34", "2606:2800:220:1::1", "151.101.1.1"
    SET_ADDRESS, SET_FLAGS, UP = 0x8916, 0x8914, 1

    def give(address):
        parsed = ipaddress.ip_address(address)
        if parsed.version == 4:
            request = struct.pack("16sH2x4s8x", b"lo", socket.AF_INET, parsed.packed)
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        else:
            request = struct.pack("=16sIi", parsed.packed, 128, socket.if_nametoindex("lo"))
            sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        with sock:
            fcntl.ioctl(sock, SET_ADDRESS, request)
            while True:  # an IPv6 address is usable a moment later
                with contextlib.suppress(OSError):
                    return sock.bind((address, 0))

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SET_FLAGS, struct.pack("16sh", b"lo", UP))

    def external(address):
        return is_external(ipaddress.ip_address(address))

    assert all(map(external, (V4, V6, ELSEWHERE))), "before they are ours"
    give(V4)
    give(V6)
    mapped, wrapped = f"::ffff:{V4}", "64:ff9b::5db8:d822"
    checked = [V4, V6, mapped, wrapped]
"""


def in_namespace(program: str) -> subprocess.CompletedProcess[str]:
    """Run the program where loopback has two public addresses."""
    if subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("the kernel forbids user namespaces")
    whole = textwrap.dedent(_ATTACK) + textwrap.dedent(program)
    return subprocess.run(
        [*_NAMESPACE, sys.executable, "-c", whole],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("netlink", "nonlocal_bind"), [(True, "0"), (True, "1"), (False, "0")])
def test_the_public_addresses_of_this_machine_are_not_external(
    netlink: bool, nonlocal_bind: str
) -> None:
    """Also where programs may bind foreign addresses, as beside a load balancer, and where a
    sandbox has no netlink."""
    ran = in_namespace(f"""
        pathlib.Path("/proc/sys/net/ipv4/ip_nonlocal_bind").write_text("{nonlocal_bind}")
        if not {netlink}:
            def no_netlink(family, *rest, create=socket.socket):
                if family == socket.AF_NETLINK:
                    raise OSError(97, "Address family not supported by protocol")
                return create(family, *rest)
            addresses.socket.socket = no_netlink
        assert not any(map(external, checked)), [each for each in checked if external(each)]
        assert external(ELSEWHERE)
    """)
    assert ran.returncode == 0, ran.stderr


def test_a_page_of_this_machine_is_not_fetched_over_its_public_address() -> None:
    """The attack: a service that listens on all addresses, asked for at a public one of them."""
    ran = in_namespace("""
        from holdfast.core.turns.tool import ToolContext, ToolFailed
        from holdfast.system.egress import EgressPolicy
        from holdfast.tools.fetch import FetchTool

        context = ToolContext(session_id="s", principal="u", call_id="c", sandbox=None)

        async def attack():
            seen = []
            async def page(request):
                seen.append(request.path)
                return web.Response(text="secret")
            app = web.Application()
            app.add_routes([web.get("/", page)])
            runner = web.AppRunner(app)
            await runner.setup()
            listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
            await web.SockSite(runner, listener).start()
            port = listener.getsockname()[1]
            open_policy = EgressPolicy(is_allowed=lambda address: True)
            everything = FetchTool(lambda: open_policy)
            hosts = (V4, "[" + V6 + "]", "[" + mapped + "]")
            for host in hosts:
                url = f"http://{host}:{port}/"
                assert "secret" in (await everything.run(context, {"url": url})).text
            assert len(seen) == len(hosts), "the page can be reached without the policy"
            for host in hosts:
                try:
                    await FetchTool(EgressPolicy).run(
                        context, {"url": f"http://{host}:{port}/"}
                    )
                except ToolFailed as error:
                    assert "private address" in str(error), error
                else:
                    raise AssertionError(host)
            assert len(seen) == len(hosts)
            await runner.cleanup()

        asyncio.run(attack())
    """)
    assert ran.returncode == 0, ran.stderr
