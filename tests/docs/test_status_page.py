"""docs/operating.md: the fields and the codes of `holdfast status` are those that it prints."""

import re

from tests.support.doc_pages import REPO, Page, Pages

from holdfast.core.ops.status import (
    AgentCacheStatus,
    BackupStatus,
    EventLoopStatus,
    GatewaySnapshot,
    HourStats,
    MachineStatus,
    StatusReport,
    StoreStatus,
    TurnStatus,
)

_NAME = re.compile(r"`(\w+)`")


def section(page: Page, title: str) -> Page:
    return Page(page.text.split(f"### {title}\n", 1)[1].split("\n#", 1)[0])


def test_every_field_of_the_document_is_explained(page: Pages) -> None:
    rows = section(page("docs/operating.md"), "For programs").rows
    named = {name for row in rows for name in _NAME.findall(row[0])}
    assert named == {*StatusReport.__struct_fields__, *GatewaySnapshot.__struct_fields__} - {
        "snapshot"
    }


def test_what_is_inside_a_field_is_named_too(page: Pages) -> None:
    text = section(page("docs/operating.md"), "For programs").text
    named = set(_NAME.findall(text))
    parts = (
        AgentCacheStatus,
        BackupStatus,
        EventLoopStatus,
        MachineStatus,
        HourStats,
        StoreStatus,
        TurnStatus,
    )
    for part in parts:
        assert set(part.__struct_fields__) - named == set(), part


def test_every_code_of_a_problem_is_explained(page: Pages) -> None:
    source = (REPO / "src/holdfast/server/status/problems.py").read_text()
    codes = set(re.findall(r'code="(\w+)"', source))
    rows = section(page("docs/operating.md"), "What is wrong").named()
    assert set(rows) == codes and len(codes) > 5
