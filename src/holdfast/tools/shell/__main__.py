"""`python -m holdfast.tools.judging --corpus FILE`: how well the judge does on a corpus."""

import argparse
from pathlib import Path

from holdfast.tools.shell.corpus import read_corpus, score
from holdfast.tools.shell.judge import ShellJudge


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m holdfast.tools.judging", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="a .jsonl or .toml file")
    parser.add_argument("--errors", action="store_true", help="list what was judged otherwise")
    chosen = parser.parse_args()
    result = score(ShellJudge(), read_corpus(chosen.corpus))
    print(result.table())
    if chosen.errors:
        for verdict in result.verdicts:
            if not verdict.agrees:
                found = verdict.judgement
                meant = verdict.labelled
                print(f"{meant.level} judged {found.level} ({found.rule}): {meant.command!r}")


if __name__ == "__main__":
    main()
