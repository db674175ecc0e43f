"""docs/metrics.md: its names are those that are served, and the dashboard uses no other."""

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

from tests.support.doc_pages import REPO, DocsGateway, Pages
from tests.support.prometheus_text import Exposition

_NAME = re.compile(r"holdfast_[a-z_]+")
_PART = re.compile(r"_(bucket|sum|count)$")


def listed(page: Pages) -> dict[str, str]:
    rows = page("docs/metrics.md").named()
    return {name: row[1] for name, row in rows.items() if _NAME.fullmatch(name)}


def test_the_page_lists_the_metrics_that_are_served(page: Pages, docs_gateway: DocsGateway) -> None:
    bearer = {"Authorization": f"Bearer {docs_gateway.token}"}
    asked = urllib.request.Request(f"{docs_gateway.address}/metrics", headers=bearer)
    with urllib.request.urlopen(asked, timeout=60) as response:
        metrics = Exposition(response.read().decode())
    assert listed(page) == metrics.kinds


def queries(node: Any) -> Iterator[str]:
    """Every query of a dashboard, wherever in it."""
    if isinstance(node, dict):
        yield from (node[key] for key in ("expr", "definition") if key in node)
    children = node.values() if isinstance(node, dict) else node
    for child in children if isinstance(node, dict | list) else ():
        yield from queries(child)


def test_every_metric_of_the_dashboard_is_on_the_page_and_every_one_there_is_shown(
    page: Pages,
) -> None:
    known = listed(page)
    shown = set()
    dashboard = json.loads((REPO / "examples/grafana-dashboard.json").read_text())
    for name in (name for query in queries(dashboard) for name in _NAME.findall(query)):
        family = _PART.sub("", name) if name not in known else name
        assert family in known, name
        assert (family != name) == (known[family] == "histogram"), name
        shown.add(family)
    assert shown == set(known)


def test_the_dashboard_can_be_imported_anywhere() -> None:
    """Nothing in it names a data source of ours, and no two panels share an id or a place."""
    dashboard = json.loads((REPO / "examples/grafana-dashboard.json").read_text())
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert names == {"datasource", "job", "instance"}
    sources = re.findall(r'"uid": "([^"]+)"', json.dumps(dashboard["panels"]))
    assert sources and set(sources) == {"${datasource}"}
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for at in (panel["gridPos"] for panel in panels):
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells
