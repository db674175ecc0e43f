"""The judge: all that the rules find in a command."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256

import msgspec

from holdfast.core.people.approval import (
    HARMLESS,
    PLAIN_COMMAND,
    CommandPattern,
    CommandRisk,
    CommandVerdict,
    JudgeContext,
    JudgedInput,
    PatternAction,
    RuleMatch,
)
from holdfast.tools.shell.interpreters import INTERPRETERS, SHELLS
from holdfast.tools.shell.invocation import (
    FoundHazard,
    Hazard,
    PathAction,
    PathEffect,
    ProgramCall,
    to_excerpt,
)
from holdfast.tools.shell.markers import MARKERS, UNKNOWN, sanitise
from holdfast.tools.shell.nested_commands import REMOTE_CWD
from holdfast.tools.shell.parser import BashParser, ScriptTooComplex
from holdfast.tools.shell.path_effects import path_effects_of
from holdfast.tools.shell.paths import SESSION_CWD, PathResolver
from holdfast.tools.shell.rules.base import HazardRule, PathRule, ProgramRule, ShellRule
from holdfast.tools.shell.rules.table import RuleTable
from holdfast.tools.shell.walker import ScriptWalker

MAX_COMMAND = 100_000
MAX_MATCHES = 64
MAX_SCRIPTS = 8  # that one command runs and the judge asks for
_CERTAIN_HAZARDS = (Hazard.FORK_BOMB, Hazard.NETWORK_CODE, Hazard.REMOTE_SHELL)
_SHELL_SHEBANG = re.compile(r"#![^\n]*\b(?:ba|da|z|k|a)?sh\b")
_MAX_REASON_PART = 200  # characters of a part in the sentence of its rule

_SEVERITY = {CommandRisk.HARMLESS: 0, CommandRisk.DANGEROUS: 1, CommandRisk.FORBIDDEN: 2}
# A script that cannot be parsed is a hazard only if it contains one of these, which a shell might
# still run; otherwise it is a mistake that the shell will report.
_RISKY_WORDS = re.compile(
    r"\b(rm|dd|mkfs\S*|sudo|su|doas|shutdown|reboot|halt|poweroff|eval|exec|source|chmod|chown|kill"
    r"|pkill|killall|curl|wget|nc|ssh|scp|sh|bash|zsh|dash|git\s+(push|reset|clean)|drop|truncate"
    r"|crontab|shred|wipefs|mv|base64|xxd|python\d?|perl|ruby|node|find|xargs|terraform|kubectl|aws"
    r"|docker)\b|/dev/(sd|nvme|vd|tcp)|>\s*/|:\(\)|\\x|\$'",
    re.IGNORECASE,
)


class ShellJudge:
    """Owns the parser and the rules; it keeps no state between commands.

    `workspaces` are the folders where deleting is everyday work. `home` is treated as a person's
    home even if the sandbox has another one: the judge must not depend on the sandbox."""

    def __init__(
        self,
        *,
        workspaces: tuple[str, ...] = ("/workspace",),
        home: str = "/home/agent",
        gateway_home: str = "",
    ) -> None:
        self._paths = PathResolver(workspaces=workspaces, home=home, gateway_home=gateway_home)
        self._parser = BashParser()
        self._rules = RuleTable()

    def judge(self, command: str, context: JudgeContext = PLAIN_COMMAND) -> CommandVerdict:
        """All findings in the command, parsed as a shell would; the worst one is the first."""
        if len(command) > MAX_COMMAND:
            too_long = self._rules.by_hazard[Hazard.TOO_LONG]
            return _verdict([_Finding(too_long, to_excerpt(command[:_MAX_REASON_PART]), None)])
        found: dict[_Finding, None] = {}
        unknown: dict[str, None] = {}
        findings = self._found_by_rules(sanitise(command), context, unknown)
        for finding in _after_patterns(findings, context.patterns):
            if len(found) < MAX_MATCHES or finding.rule.level is CommandRisk.FORBIDDEN:
                found[finding] = None
            elif finding not in found:
                # Too many to list: the whole command is flagged, and can only be approved once.
                rule = self._rules.by_hazard[Hazard.TOO_COMPLEX]
                found[_Finding(rule, to_excerpt(sanitise(command)), None)] = None
        scripts = tuple(each for each in unknown if each not in context.scripts)
        return msgspec.structs.replace(_verdict(list(found)), scripts=scripts[:MAX_SCRIPTS])

    def _found_by_rules(
        self, command: str, context: JudgeContext, unknown: dict[str, None]
    ) -> Iterator["_Finding | ProgramCall | PathEffect"]:
        """`unknown` gets the scripts of the workspace that the command runs."""
        match context.kind:
            case JudgedInput.COMMAND:
                plain = list(self._findings(command, unknown=unknown))
                yield from plain
                if context.scripts:
                    before = {found for found in plain if isinstance(found, _Finding)}
                    for found in self._findings(command, files=context.scripts, unknown=unknown):
                        # Of a script, only what is certain counts: configuration and build scripts
                        # are full of what is known when they run.
                        if isinstance(found, _Finding) and found not in before and found.is_certain:
                            yield found
            case JudgedInput.PROCESS_INPUT:
                yield from self._input_findings(command, sanitise(context.process))
            case JudgedInput.READ_PATH | JudgedInput.WRITTEN_PATH:
                writes = context.kind is JudgedInput.WRITTEN_PATH
                action = PathAction.WRITE if writes else PathAction.READ
                path = _expand_home(command, self._paths.home)
                yield from self._effect_findings(
                    PathEffect(action=action, path=path, paths=self._paths)
                )

    def _input_findings(
        self, text: str, process: str
    ) -> Iterator["_Finding | ProgramCall | PathEffect"]:
        """What the program would do with the input, besides what it was started for. Names that
        earlier input has defined are not known."""
        before = {found for found in self._findings(process) if isinstance(found, _Finding)}
        reads_code = False
        for found in self._findings(process, stdin=text):
            if isinstance(found, ProgramCall):
                name = found.program.rstrip("0123456789.")
                reads_code = reads_code or name in SHELLS or name in INTERPRETERS
            if found not in before:
                yield found
        if reads_code and text.strip() and not text.endswith("\n"):
            # The next input completes the line, and would be judged without this one.
            rule = self._rules.by_hazard[Hazard.UNKNOWN_CODE]
            yield _Finding(rule, to_excerpt(text), None)

    def _findings(
        self,
        command: str,
        stdin: str = "",
        *,
        files: Mapping[str, str] | None = None,
        unknown: dict[str, None] | None = None,
    ) -> Iterator["_Finding | ProgramCall | PathEffect"]:
        """All findings, and the programs and paths that patterns are tried for."""
        walker = ScriptWalker(self._parser, self._paths)
        contents = walker.shell.files
        for path, text in (files or {}).items():
            contents[self._paths.resolve(path)] = sanitise(text) if _is_shell_script(text) else ""
        try:
            walker.walk_script(command, stdin)
        except (ScriptTooComplex, RecursionError):
            # What was found up to there still counts.
            walker.hazards.append(FoundHazard(hazard=Hazard.TOO_COMPLEX, part=to_excerpt(command)))
        if unknown is not None:
            unknown |= dict.fromkeys(
                filter(None, map(self._workspace_path, contents.unknown_scripts))
            )
        for found in walker.hazards:
            if found.hazard != Hazard.UNREADABLE or _RISKY_WORDS.search(command + stdin):
                # Neither a program nor a path says enough: it is bound to this very command.
                known = found.hazard is not Hazard.UNKNOWN_CODE
                target = f"sha256:{_sha256(command + stdin)}" if known else None
                yield _Finding(self._rules.by_hazard[found.hazard], found.part, target)
        yield from self._program_findings(walker)
        yield from self._path_findings(walker)

    def _workspace_path(self, path: str) -> str:
        """A path as the sandbox knows it; "": it is not in the workspace, or not known."""
        if any(mark in path for mark in MARKERS) or self._paths.locate(path) != "inside":
            return ""
        return path.removeprefix(SESSION_CWD).lstrip("/") if path.startswith(SESSION_CWD) else path

    def _program_findings(self, walker: ScriptWalker) -> Iterator["_Finding | ProgramCall"]:
        for run in walker.programs:
            yield run
            for rule in self._rules.for_program(run.program):
                if rule.matches(run):
                    yield _Finding(rule, run.excerpt, _target(run.program, run.paths))
            walker.path_effects.extend(path_effects_of(run))

    def _path_findings(self, walker: ScriptWalker) -> Iterator["_Finding | PathEffect"]:
        for effect in walker.path_effects:
            yield from self._effect_findings(effect)

    def _effect_findings(self, effect: PathEffect) -> Iterator["_Finding | PathEffect"]:
        path = effect.path.rstrip()
        if not path or (path == UNKNOWN and effect.action is not PathAction.DELETE):
            return
        yield effect
        location = effect.paths.locate(path)
        for rule in self._rules.by_action[effect.action]:
            if rule.matches(effect, location):
                yield _Finding(rule, to_excerpt(path), _path_target(effect, path))


class _Finding(msgspec.Struct, frozen=True):
    rule: ShellRule
    part: str
    target: str | None

    # Rules contain functions, and are compared by their name.

    def __hash__(self) -> int:
        return hash((self.rule.name, self.part, self.target))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Finding) and (self.rule.name, self.part, self.target) == (
            other.rule.name,
            other.part,
            other.target,
        )

    @property
    def is_certain(self) -> bool:
        if isinstance(self.rule, HazardRule):
            return self.rule.hazard in _CERTAIN_HAZARDS
        return self.target is not None

    @property
    def why(self) -> str:
        part = self.part
        if len(part) > _MAX_REASON_PART:
            part = part[: _MAX_REASON_PART - 1] + "…"
        return self.rule.why.format(part=part)


_PATTERN_LEVELS = {
    PatternAction.ASK: CommandRisk.DANGEROUS,
    PatternAction.FORBID: CommandRisk.FORBIDDEN,
}
PATTERN_RULE = "pattern {match}"  # the name of the rule that a pattern makes


def _after_patterns(
    found: Iterable[_Finding | ProgramCall | PathEffect], patterns: Sequence[CommandPattern]
) -> Iterator[_Finding]:
    """The findings that no pattern allows, and those of patterns."""
    allowing = [each.match for each in patterns if each.action is PatternAction.ALLOW]
    others = [each for each in patterns if each.action is not PatternAction.ALLOW]
    for each in found:
        if isinstance(each, _Finding):
            if not any(_allows(match, each) for match in allowing):
                yield each
            continue
        if not others:
            continue
        # A path by both its names: as it is written, and where it leads.
        texts = (
            (each.excerpt,)
            if isinstance(each, ProgramCall)
            else (to_excerpt(each.path), _path_target(each, each.path) or "")
        )
        for pattern in others:
            if any(fnmatchcase(text, pattern.match) for text in texts):
                why = pattern.reason or _PATTERN_REASON.format(pattern=pattern.match)
                rule = ShellRule(
                    name=PATTERN_RULE.format(match=pattern.match),
                    level=_PATTERN_LEVELS[pattern.action],
                    why=why.replace("{", "{{").replace("}", "}}"),
                )
                # A person is asked each time.
                yield _Finding(rule, texts[0], None)


_PATTERN_REASON = "The configuration of this gateway names it: {pattern}."


def _allows(match: str, finding: _Finding) -> bool:
    """Not what is forbidden, nor what neither a program nor a path says enough about."""
    if finding.rule.level is CommandRisk.FORBIDDEN or finding.target is None:
        return False
    match finding.rule:
        case ProgramRule():
            return fnmatchcase(finding.part, match)
        case PathRule():
            return fnmatchcase(finding.target, match)
    return False


def _is_shell_script(text: str) -> bool:
    return not text.startswith("#!") or _SHELL_SHEBANG.match(text) is not None


def _expand_home(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _verdict(findings: list[_Finding]) -> CommandVerdict:
    if not findings:
        return HARMLESS
    worst, *others = sorted(findings, key=lambda found: -_SEVERITY[found.rule.level])
    return CommandVerdict(
        level=worst.rule.level,
        rule=worst.rule.name,
        why=worst.why,
        part=worst.part,
        target=worst.target,
        also=tuple(
            RuleMatch(rule=each.rule.name, why=each.why, part=each.part, target=each.target)
            for each in others
        ),
    )


def _sha256(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _path_target(effect: PathEffect, path: str) -> str | None:
    full = effect.paths.resolve(path)
    inside = full.removeprefix(SESSION_CWD)
    return _target(inside.lstrip("/") or "." if inside != full else full, effect.paths)


def _target(name: str, paths: PathResolver) -> str | None:
    """What a standing approval is bound to. None: part of it is unknown, or it is on another
    machine, which its name does not say."""
    remote = paths.cwd == REMOTE_CWD or paths.cwd.startswith(f"{REMOTE_CWD}/")
    return None if remote or any(mark in name for mark in MARKERS) else to_excerpt(name)
