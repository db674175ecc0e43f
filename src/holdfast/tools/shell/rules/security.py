"""Security: walls taken down, and looking away."""

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.rules.rule import RunRule, names
from holdfast.tools.shell.run import Run


def _opens_wall(run: Run) -> bool:
    words = set(run.args)
    looking = {"-L", "-S", "--list", "--list-rules", "status", "list", "-n", "--state"}
    return bool(words) and not looking & words


def _turns_off(run: Run) -> bool:
    said = " ".join(run.args).lower()
    return any(
        text in said for text in ("strict-ssl false", "strict-ssl=false", "http.sslverify false")
    )


RULES = (
    RunRule(
        name="change-the-firewall",
        level=Level.DANGEROUS,
        why="It would change the firewall.",
        programs=names("ufw iptables ip6tables nft firewall-cmd pfctl ebtables"),
        sees=_opens_wall,
    ),
    RunRule(
        name="switch-off-protection",
        level=Level.DANGEROUS,
        why="It would switch a protection of the machine off.",
        programs=names("setenforce aa-disable aa-teardown aa-complain csrutil spctl auditctl"),
    ),
    RunRule(
        name="kernel-settings",
        level=Level.DANGEROUS,
        why="It would change the settings of the running kernel.",
        programs=names("sysctl"),
        sees=lambda run: (
            bool({"-w", "--write", "-p", "--system"} & set(run.args))
            or any("=" in word for word in run.args)
        ),
    ),
    RunRule(
        name="forget-history",
        level=Level.DANGEROUS,
        why="It would remove the record of what was run.",
        programs=names("history"),
        sees=lambda run: run.options("d").has("cdw"),
    ),
    RunRule(
        name="trust-anybody",
        level=Level.DANGEROUS,
        why="It would stop checking who the other side is, from now on.",
        programs=names("npm yarn pnpm git pip conda"),
        sees=lambda run: bool({"config", "set"} & set(run.args)) and _turns_off(run),
    ),
    RunRule(
        name="empty-a-log",
        level=Level.DANGEROUS,
        why="It would delete records of the machine.",
        programs=names("journalctl logrotate"),
        sees=lambda run: (
            any(word.startswith("--vacuum") or word == "-f" for word in run.args)
            and any(word.startswith("--vacuum") for word in run.args)
        ),
    ),
)
