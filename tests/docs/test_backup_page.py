"""docs/backup.md: its commands make a backup with the contents that it lists."""

import subprocess
import tarfile

from tests.support.doc_pages import DocsGateway, Pages


def test_what_the_page_says_to_type_makes_a_backup(page: Pages, docs_gateway: DocsGateway) -> None:
    """K4: of a live gateway."""
    [block] = [block for block in page("docs/backup.md").blocks if block.language == "sh"]
    typed = ["bash", "-euc", block.text]
    ran = subprocess.run(
        typed, env=docs_gateway.environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "verified" in ran.stdout and "good" in ran.stdout
    newest = max((docs_gateway.home / "backups").glob("*.tar.gz"))  # it makes some by itself, too
    with tarfile.open(newest) as tar:
        names = tar.getnames()
    assert names[0] == "manifest.json" and names[-1] == "SHA256SUMS" and "state.db" in names
    assert not any(name.startswith(("secrets", ".env")) for name in names)
