"""`holdfast pairing`: requests are approved, denied and revoked from the shell."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command_line import Cli, CliGateway
from tests.support.simulated_vendor import SimulatedVendor

from holdfast.system import exit_codes


@pytest.fixture
def vendor() -> Iterator[SimulatedVendor]:
    with SimulatedVendor() as vendor:
        yield vendor


@pytest.fixture
def gateway(tmp_path: Path, vendor: SimulatedVendor) -> Iterator[CliGateway]:
    gateway = CliGateway(tmp_path)
    gateway.configure(f'[platforms.simulated]\nbase_url = "{vendor.base_url}"\n')
    gateway.start()
    yield gateway
    gateway.stop()


def test_users_approved_from_the_shell_stay_approved_after_a_kill(
    vendor: SimulatedVendor, gateway: CliGateway, cli: Cli
) -> None:
    def pairing(*args: str) -> str:
        done = cli("pairing", *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "No pairing requests" in pairing("list")
    vendor.say("hello", user="eve", user_name="Eve \x1b[31m")
    vendor.say("hello", user="mallory")
    codes = {vendor.sent(2)[each]["chat_id"]: vendor.pairing_code(each + 1) for each in (0, 1)}
    listed = pairing("list")
    assert "simulated:default:eve" in listed and "\x1b" not in listed
    waiting = json.loads(pairing("list", "--json"))
    assert {each["user_id"] for each in waiting["requests"]} == {"eve", "mallory"}
    assert codes["eve"] not in json.dumps(waiting)

    wrong = cli("pairing", "approve", "AAAA-AAAA")
    assert wrong.returncode == exit_codes.FAILED and "4 more wrong codes" in wrong.stderr
    assert json.loads(pairing("deny", "mallory", "--json")) == {
        "message": "Denied: simulated:default:mallory."
    }
    assert "has access now" in pairing("approve", *codes["eve"].lower().split("-"))
    assert vendor.sent(3)[2]["chat_id"] == "eve"

    gateway.kill()
    gateway.start()
    assert [each["user_id"] for each in json.loads(pairing("list", "--json"))["users"]] == ["eve"]
    vendor.say("/status", user="eve")
    assert vendor.sent(4)[3]["chat_id"] == "eve"
    assert "has no access any more" in pairing("revoke", "simulated:default:eve")
    unknown = cli("pairing", "revoke", "eve")
    assert unknown.returncode == exit_codes.FAILED and "not a paired user" in unknown.stderr
