"""Which paths a program would read, write, delete or change."""

import re
from collections.abc import Callable, Iterator

from holdfast.tools.shell.invocation import (
    ParsedOptions,
    PathAction,
    PathActions,
    PathEffect,
    ProgramCall,
)
from holdfast.tools.shell.outputs import ANY_DEPTH, SOME_FILE, find_results
from holdfast.tools.shell.paths import PathLocation

# The `w` of sed, alone or behind `s/…/…/`, with a path that leads away from here.
_SED_WRITES = re.compile(
    r"(?:^|[;{}\d$gpIi])\s*[wW]\s*([/~]\w\S*)|/\s*[wW]\s+([/~]\S*)", re.MULTILINE
)
_SED_COPIES = re.compile(r"(?:^|[;{}/\d$gpIi])\s*[wW](\s|/dev/)", re.MULTILINE)
_IN_PLACE = re.compile(r"-[a-zA-Z0]*i(?!n)")


def _dd(run: ProgramCall) -> PathActions:
    for word in run.args:
        name, _, path = word.partition("=")
        if name == "of":
            yield PathAction.WRITE, path
        elif name == "if":
            yield PathAction.READ, path


def _sed(run: ProgramCall) -> PathActions:
    options = run.options("efl", ("expression", "file"))
    for match in _SED_WRITES.finditer(_sed_script(options)):
        yield PathAction.WRITE, match[1] or match[2]
    if not options.has("i", "in-place"):
        return
    scripted = any(name in "ef" for name, _ in options.values)
    for path in options.operands if scripted else options.operands[1:]:
        yield PathAction.WRITE, path


def _sed_script(options: ParsedOptions) -> str:
    given = [value for name, value in options.values if name == "e"]
    return "\n".join(given or options.operands[:1])


def _sort(run: ProgramCall) -> PathActions:
    to = run.options("okStTC", ("output", "key")).value("o", "output")
    if to:
        yield PathAction.WRITE, to


def _patch(run: ProgramCall) -> PathActions:
    for path in run.options("pidDFoBgrVYz", ("input", "strip", "directory")).operands[:1]:
        yield PathAction.WRITE, path


def _perl(run: ProgramCall) -> PathActions:
    """`-i` edits in place, also in a group of short options."""
    if any(_IN_PLACE.match(word) for word in run.args):
        for path in run.options("eEIMm").operands:
            yield PathAction.WRITE, path


def edits_in_place(run: ProgramCall) -> bool:
    """Whether the program writes its result only to the file that it reads."""
    if run.program not in ("sed", "gsed"):
        return False
    options = run.options("efl", ("expression", "file"))
    return options.has("i", "in-place") and not _SED_COPIES.search(_sed_script(options))


EDITORS: dict[str, Callable[[ProgramCall], PathActions]] = {
    "dd": _dd,
    "sed": _sed,
    "gsed": _sed,
    "sort": _sort,
    "patch": _patch,
    "perl": _perl,
    "ruby": _perl,
}


# fmt: off
_READERS = frozenset((
    "cat", "head", "tail", "less", "more", "tac", "nl", "grep", "egrep", "fgrep", "rg", "awk",
    "sed", "base64", "xxd", "od", "hexdump", "strings", "cut", "sort", "uniq", "view", "bat",
    "zip", "gzip", "scp", "rsync", "tar", "openssl", "diff", "jq", "yq", "vim", "vi", "nano",
    "paste", "column", "curl", "wc", "md5sum", "sha256sum", "7z", "gpg", "ssh-add",
))
# fmt: on


# Any program may read a secret that it is given, except those that only use its name, and those
# that are told where it is to log in with it.
_MAYBE_SECRET = re.compile(
    r"shadow|sudoers|id_(?:rsa|dsa|ecdsa|ed25519)|\.(?:ssh|gnupg|aws|netrc|pgpass|kube|docker|azure"
    r"|git-credentials|npmrc|pypirc|password-store)(?m:/|$)|\.config/(?:gcloud|gh|op|rclone|doctl)"
    r"|run/secrets|/proc/\w+/(?:environ|mem)|_history(?m:$)|keyrings|Login Data|wallet\.dat"
)
# fmt: off
_NAMES_ONLY = frozenset((
    "ls", "stat", "test", "[", "[[", "echo", "printf", "cd", "mkdir", "touch", "rm", "rmdir",
    "chmod", "chown", "chgrp", "ssh", "ssh-keygen", "ssh-copy-id", "git", "find", "du", "export",
    "kubectl", "helm", "oc", "docker", "podman", "unset", "basename", "dirname", "realpath",
    "readlink", "file", "which", "pushd", "popd", "ln", "cp", "mv", "install", "tee", "truncate",
    "shred", "unlink", "sudo", "env", "bash", "sh", "eval", "mount", "chattr", "local", "declare",
    "alias", "python", "python3", "perl", "ruby", "node", "php", "gpg", "gpg2", "man", "whereis",
    "locate", "getfacl", "crontab", "dd", "trash", "mlocate", "ansible", "ansible-playbook", "sops",
    "mktemp", "xargs", "k9s", "systemctl", "getent", "sort", "wget", "npm", "terraform", "eksctl",
    "kubectx", "minikube", "kind",
))
# fmt: on
_OURS = (PathLocation.INSIDE, PathLocation.WORKSPACE)


def _path_in(word: str) -> str:
    """`--option=path`, `@path`, `file:path` and the like."""
    path = word.partition("=")[2] if "=" in word else word
    return re.sub(r"^(?:@|(?:file|open|gopen|FILE|OPEN):(?://)?)", "", path)


def path_effects_of(run: ProgramCall) -> Iterator[PathEffect]:
    find = _HANDLERS.get(run.program)
    if find is not None:
        for action, path in find(run):
            yield PathEffect(action=action, path=path, paths=run.paths)
    if run.program not in _READERS and run.program not in _NAMES_ONLY:
        for word in run.args if _MAYBE_SECRET.search("\n".join(run.args)) else ():
            path = _path_in(word)
            if run.paths.locate(path) not in _OURS:
                yield PathEffect(action=PathAction.READ, path=path, paths=run.paths)
    if run.program in _READERS and not edits_in_place(run):
        for word in run.args:
            path = word.partition("=")[2].lstrip("@") if word.startswith("-") else word
            if path:
                path = path.lstrip("@")
                yield PathEffect(action=PathAction.READ, path=path or word, paths=run.paths)


def _rm(run: ProgramCall) -> PathActions:
    options = run.options()
    deep = options.has("rR", "recursive", "dir")
    for path in options.operands:
        yield (PathAction.DELETE if deep or path.endswith(ANY_DEPTH) else PathAction.REMOVE), path


def _remove(run: ProgramCall) -> PathActions:
    for path in run.options("nsC").operands:
        yield (PathAction.DELETE if path.endswith(ANY_DEPTH) else PathAction.REMOVE), path


def _trash(run: ProgramCall) -> PathActions:
    for path in run.options().operands:
        yield PathAction.DELETE, path


def _write(run: ProgramCall) -> PathActions:
    for path in run.options("sdrtm").operands:
        yield PathAction.WRITE, path


def _copy(run: ProgramCall) -> PathActions:
    options = run.options("tSmogZ", ("target-directory", "suffix", "mode", "owner", "group"))
    into = options.value("t", "target-directory")
    sources = options.operands if into else options.operands[:-1]
    if into or sources:
        yield PathAction.WRITE, into or options.operands[-1]
    if run.program == "mv":
        for path in sources:
            yield PathAction.REMOVE, path
            if _is_whole_tree(run, path):
                yield PathAction.DELETE, path
    for path in sources:
        yield PathAction.READ, path


def _is_whole_tree(run: ProgramCall, path: str) -> bool:
    return run.paths.locate(path) in ("root", "home", "system tree", "workspace")


def _is_found(path: str) -> bool:
    """Whether it stands for many files that `find` chose."""
    return path.rpartition("/")[2] == SOME_FILE


def _chmod(run: ProgramCall) -> PathActions:
    options = run.options()
    # A mode may look like an option: `chmod -R -w x`.
    operands = [word for word in run.args if word == "--" or word[:1] != "-"]
    mode, paths = (operands[0], operands[1:]) if operands else ("", [])
    if options.value("", "reference") is not None:
        paths = operands
    deep = options.has("R", "recursive")
    for path in paths:
        if deep or _is_found(path):
            yield (
                (PathAction.MAKE_WRITABLE if _opens_up(mode) else PathAction.CHANGE_OWNER_OR_MODE),
                path,
            )
        else:
            yield PathAction.WRITE, path


def _opens_up(mode: str) -> bool:
    if mode.isdecimal():
        return mode[-1] in "2367" or mode.strip("0") == ""
    return any(
        part[:1] in "ao+=" and "w" in part.replace("-w", "") and ("+" in part or "=" in part)
        for part in mode.split(",")
    )


def _chown(run: ProgramCall) -> PathActions:
    options = run.options()
    deep = options.has("R", "recursive")
    for path in options.operands[1:]:
        many = deep or _is_found(path)
        yield (PathAction.CHANGE_OWNER_OR_MODE if many else PathAction.WRITE), path


def _chattr(run: ProgramCall) -> PathActions:
    words = [word for word in run.args if word[:1] not in ("-", "+", "=")]
    deep = any(word[:1] == "-" and "R" in word for word in run.args)
    for path in words:
        yield (PathAction.CHANGE_OWNER_OR_MODE if deep else PathAction.WRITE), path


def _container_mounts(run: ProgramCall) -> PathActions:
    """Folders of this machine that a container gets, to read or to write."""
    options = run.options("evpwulhmcn", ("volume", "mount"))
    given = [value for name, value in options.values if name == "v"]
    given += [value for name, value in options.longs if name in ("volume", "mount")]
    for value in given:
        path, read_only = _parse_mount(value)
        if path[:1] in ("/", ".", "~") and not path.startswith("/dev/"):
            yield PathAction.READ, path
            if not read_only:
                yield PathAction.WRITE, path


def _parse_mount(value: str) -> tuple[str, bool]:
    if "=" not in value:
        path, _, rest = value.partition(":")
        return path, rest.endswith(":ro")
    words = dict(word.partition("=")[::2] for word in value.split(","))
    path = words.get("source") or words.get("src", "")
    return path, not {"readonly", "ro"}.isdisjoint(words)


def _find(run: ProgramCall) -> PathActions:
    if "-delete" in run.args:
        for path in find_results(run.args):
            yield PathAction.DELETE, path


def _unpack(run: ProgramCall) -> PathActions:
    options = run.options("fCdIXT", ("directory", "file"))
    into = options.value("Cd", "directory")
    if run.program == "tar" and not options.has("x", "extract", "get"):
        old = run.args[:1] and not run.args[0].startswith("-") and "x" in run.args[0]
        if not old:
            return
    if into:
        yield PathAction.WRITE, into
    old = run.args[:1] and not run.args[0].startswith("-") and "P" in run.args[0]
    if run.program == "tar" and (old or options.has("P", "absolute-names")):
        yield PathAction.WRITE, "/"


def _fetch(run: ProgramCall) -> PathActions:
    curl = run.program == "curl"
    options = run.options("oXHdFuAebTxmKw" if curl else "OoPUetT", ("output", "output-document"))
    to = options.value("o" if curl else "OP", "output", "output-document", "directory-prefix")
    if to and to != "-":
        yield PathAction.WRITE, to


def _rsync(run: ProgramCall) -> PathActions:
    options = run.options("eTfM", ("rsh", "exclude", "include", "filter", "files-from"))
    if options.operands and ":" not in options.operands[-1]:
        yield PathAction.WRITE, options.operands[-1]
        if options.has("", "delete", "delete-after", "delete-excluded", "delete-before"):
            yield PathAction.DELETE, options.operands[-1]


def _git(run: ProgramCall) -> PathActions:
    if run.args[:1] == ("rm",):
        return
    if run.args[:2] == ("config", "--system"):
        yield PathAction.WRITE, "/etc/gitconfig"


_HANDLERS: dict[str, Callable[[ProgramCall], PathActions]] = {
    **EDITORS,
    "rm": _rm,
    "unlink": _remove,
    "rmdir": _remove,
    "shred": _remove,
    "srm": _trash,
    "wipe": _trash,
    "rimraf": _trash,
    "trash": _trash,
    "tee": _write,
    "touch": _write,
    "sponge": _write,
    "ed": _write,
    "truncate": _write,
    "mkdir": _write,
    "fallocate": _write,
    "cp": _copy,
    "mv": _copy,
    "ln": _copy,
    "install": _copy,
    "chmod": _chmod,
    "chown": _chown,
    "chgrp": _chown,
    "setfacl": _chown,
    "chattr": _chattr,
    "docker": _container_mounts,
    "podman": _container_mounts,
    "nerdctl": _container_mounts,
    "find": _find,
    "tar": _unpack,
    "unzip": _unpack,
    "curl": _fetch,
    "wget": _fetch,
    "rsync": _rsync,
    "git": _git,
}
EFFECT_PROGRAMS = frozenset(_HANDLERS) | _READERS
