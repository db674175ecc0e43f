"""Security: walls taken down, and looking away."""

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.rules.rule import ProgramRule, word_set
from holdfast.tools.shell.run import ProgramCall


def _changes_firewall(run: ProgramCall) -> bool:
    words = set(run.args)
    looking = {"-L", "-S", "--list", "--list-rules", "status", "list", "-n", "--state"}
    return bool(words) and not looking & words


def _disables_tls_check(run: ProgramCall) -> bool:
    said = " ".join(run.args).lower()
    return any(
        text in said for text in ("strict-ssl false", "strict-ssl=false", "http.sslverify false")
    )


SECURITY_RULES = (
    ProgramRule(
        name="change-the-firewall",
        level=CommandRisk.DANGEROUS,
        why="It would change the firewall.",
        programs=word_set("ufw iptables ip6tables nft firewall-cmd pfctl ebtables"),
        matches=_changes_firewall,
    ),
    ProgramRule(
        name="switch-off-protection",
        level=CommandRisk.DANGEROUS,
        why="It would switch a protection of the machine off.",
        programs=word_set("setenforce aa-disable aa-teardown aa-complain csrutil spctl auditctl"),
    ),
    ProgramRule(
        name="kernel-settings",
        level=CommandRisk.DANGEROUS,
        why="It would change the settings of the running kernel.",
        programs=word_set("sysctl"),
        matches=lambda run: (
            bool({"-w", "--write", "-p", "--system"} & set(run.args))
            or any("=" in word for word in run.args)
        ),
    ),
    ProgramRule(
        name="forget-history",
        level=CommandRisk.DANGEROUS,
        why="It would remove the record of what was run.",
        programs=word_set("history"),
        matches=lambda run: run.options("d").has("cdw"),
    ),
    ProgramRule(
        name="trust-anybody",
        level=CommandRisk.DANGEROUS,
        why="It would stop checking who the other side is, from now on.",
        programs=word_set("npm yarn pnpm git pip conda"),
        matches=lambda run: bool({"config", "set"} & set(run.args)) and _disables_tls_check(run),
    ),
    ProgramRule(
        name="empty-a-log",
        level=CommandRisk.DANGEROUS,
        why="It would delete records of the machine.",
        programs=word_set("journalctl logrotate"),
        matches=lambda run: (
            any(word.startswith("--vacuum") or word == "-f" for word in run.args)
            and any(word.startswith("--vacuum") for word in run.args)
        ),
    ),
)
