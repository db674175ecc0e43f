"""Every text of the command line is marked for translation.

In the pseudo-locale a marked text is ⟦…⟧. What is left outside of the brackets must be names that
programs and people type, or data.
"""

import re
import shlex

import click
import pytest
from tests.cli.test_help import command_paths
from tests.support.command_line import Cli, CliGateway

from holdfast.cli.root import cli as root

SHELL = {"LC_ALL": "en_XA.UTF-8"}
_MARKED = re.compile(r"⟦[^⟦⟧]*⟧")
_TRUNCATED = re.compile(r"⟦[^⟦⟧\n]*$", re.MULTILINE)  # to the first sentence, or to a width
_USAGE = re.compile(r"^⟦Usage:⟧ .*$", re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]{2,}")


def unmarked(text: str) -> str:
    """What is not part of a marked text; marked texts may be values of others."""
    text = _USAGE.sub("", click.unstyle(text))
    while _MARKED.search(text):
        text = _MARKED.sub("", text)
    return _TRUNCATED.sub("", text)


def test_the_help_of_every_command_is_marked(cli: Cli) -> None:
    paths = [*command_paths(root)]
    assert len(paths) > 80
    names = {name for path in paths for name in path} | {"holdfast"}
    for path in paths:
        shown = cli(*path, "--help", **SHELL).stdout
        left = re.sub(r"\[[^\s\]]+\]", "", unmarked(shown))  # choices, ranges, optional arguments
        left = re.sub(r"(?<!\S)--?[\w-]+", "", left)  # options
        words = [word for word in re.findall(r"[\w-]+", left) if _WORD.search(word)]
        wrong = [word for word in words if word not in names and not word.isupper()]
        assert not wrong, (path, wrong, shown)


# What the commands below print besides texts: paths, ids, names of files and programs, units.
_DATA = re.compile(
    r"/\S+|\b[a-z]+_[\w-]+|\bholdfast(?:\.\w+)?\b|\b[0-9a-f]{16,}\b|\bhttp\S+|\b(?:min|[kMG]B)\b"
)


def unmarked_words(cli: Cli, command: str, data: str, **environ: str) -> list[str]:
    """The words that a command prints outside of texts; `data`: those that are right there."""
    done = cli(*shlex.split(command), **SHELL, **environ)
    left = _DATA.sub(" ", unmarked(done.stdout + done.stderr))
    allowed = data.split()
    return [word for word in _WORD.findall(left) if word not in allowed]


@pytest.mark.parametrize(
    ("command", "data"),
    [
        ("sessions list", ""),
        ("sessions show nothing", ""),
        ("search nothing", ""),
        ("search --rebuild", ""),
        ("memory show", ""),
        ("jobs list", ""),
        ("jobs show 7", ""),
        ("jobs stop 7", ""),
        ("audit", ""),
        ("audit verify", ""),
        ("audit --kind toll", ""),
        ("audit --since yesterday", ""),
        ("platforms list", ""),
        ("platforms add telegrm", ""),
        ("platforms add api", ""),
        ("pairing list", ""),
        ("approvals list", ""),
        ("backup create", ""),
        ("backup list", ""),
        ("backup verify", ""),
        ("backup prune --dry-run", ""),
        ("restore", ""),
        ("restore --recover --yes", ""),
        ("config check", ""),
        ("config history", ""),
        ("config diff 3", ""),
        ("config set agent.max_steps 40", "agent"),
        ("config set --unset agent.max_steps", ""),
        ("config set agent.max_steps", ""),
        ("config reload", ""),
        ("setup", ""),
        ("setup --provider demo", "model provider demo"),
        ("setup --provider openai", ""),
        ("models list", "model demo"),
        ("models check", "demo"),
        ("doctor", ""),
        ("doctor --skip all", ""),
        ("judge 'rm -rf /'", "forbidden delete the system file rm rf"),
        ("gateway check", ""),
        ("gateway start", ""),
        ("gateway stop", ""),
        ("gateway restart --now --when-idle", ""),
        ("gateway uninstall", ""),
        ("status", ""),
        ("token list", ""),
        ("link", ""),
        ("nothing", ""),
        ("ask hello", ""),
        ("send telegram:1 hello", ""),
        ("top", ""),
        ("logs", ""),
    ],
)
def test_the_output_without_a_gateway_is_marked(cli: Cli, command: str, data: str) -> None:
    assert unmarked_words(cli, command, data) == []


def test_the_output_with_a_gateway_is_marked(cli: Cli, gateway: CliGateway) -> None:
    commands = {
        "ask --session orchard [hello]": "You said hello",
        "sessions list": "web orchard idle hello",
        "sessions show orchard": "web orchard user assistant hello You said",
        "jobs add 'every day at 9' 'water it'": "every day at",
        "jobs list": "water it every day at nowhere person owner api default",
        "jobs show 1": "water it every day at nowhere person owner once skip fresh api default",
        "jobs pause 1": "",
        "jobs resume 1": "",
        "jobs edit 1": "",
        "jobs edit 1 --name ' '": "",
        "jobs run 1": "",
        "jobs history 1": "water it You said",
        "jobs rm 1": "",
        "memory add tea": "",
        "memory show": "person owner tea",
        "memory edit 1 coffee": "",
        "memory forget 7": "person owner",
        "memory forget 1": "",
        "approvals list": "",
        "approvals list --all": "",
        "approvals approve": "",
        "approvals deny 4": "",
        "approvals rules": "",
        "approvals revoke 4": "",
        "pairing list": "",
        "platforms list": "api web default none",
        "token add --role viewer ann": "",
        "token list": "ann read",
        "token revoke ann": "",
        "audit -n 3": "token read owner session ok api ann revoked created operator removed "
        "memory person job note line command changed done remove added asked",
        "config set agent.max_steps 40": "agent",
        "config history": "command line set start agent",
        "config diff 1 2": "agent runner sandbox off true",
        "config reload": "",
        "models list": "model local default",
        "search hello": "web orchard hello user assistant You said",
        "backup create": "",
        "backup list": "tar gz",
        "backup verify": "tar gz",
        "doctor --skip model --skip units --skip versions": "home permissions disk config lock "
        "leftovers database gateway backups sandbox accounts",
        "status": "none default local",
        "gateway status": "none default local",
    }
    found = {command: unmarked_words(cli, command, data) for command, data in commands.items()}
    assert {command: words for command, words in found.items() if words} == {}


def test_the_states_of_approvals_are_marked(cli: Cli, gateway: CliGateway) -> None:
    sudo = '[tool terminal {"command": "sudo -n true"}] [then] [text done]'
    asking = ("ask", "--session", "shed", "--message-id", "m1", "--timeout", "1", sudo)
    waits = "Waiting for approval: sudo -n true"
    while waits not in (late := cli(*asking, **gateway.environ)).stderr:
        assert late.returncode == 124
    data = "sudo true web shed operator default owner"
    for command in ("approvals list", "approvals deny", "approvals list --all"):
        assert unmarked_words(cli, command, data, **gateway.environ) == [], command
