"""Sending: files and secrets out to other machines, and doors opened for them."""

import re

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.markers import FILE_CONTENT
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.rules.rule import ProgramRule, word_set
from holdfast.tools.shell.run import ProgramCall

_LOOPBACK = re.compile(r"^(https?://)?(localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0)([:/]|$)")
_REMOTE_TARGET = re.compile(r"^([\w.-]+@)?[\w.-]{2,}:(?!//)|^(rsync|ssh|sftp|ftp|scp)://")
_CURL_VALUED = "oXHdFuAebTxmKwCDEPQrtyYz"
_CURL_LONGS = (
    "data", "data-binary", "data-raw", "data-urlencode", "data-ascii", "form", "upload-file",
    "output", "request", "header", "user", "url", "json", "max-time", "proxy", "cookie", "referer",
    "user-agent", "write-out", "retry", "connect-timeout", "config",
)  # fmt: skip


def _is_loopback(words: tuple[str, ...]) -> bool:
    return any(_LOOPBACK.match(word) for word in words)


def _curl_uploads(run: ProgramCall) -> bool:
    options = run.options(_CURL_VALUED, _CURL_LONGS)
    if _is_loopback(options.operands) or _is_loopback(tuple(value for _, value in options.longs)):
        return False
    if FILE_CONTENT in "".join(run.args):
        return True
    given = [value for name, value in options.values if name in "dF"]
    given += [v for name, v in options.longs if name.startswith(("data", "form", "json"))]
    if any(_names_file(value, run) for value in given):
        return True
    return options.value("T", "upload-file") is not None


def _names_file(value: str, run: ProgramCall) -> bool:
    _, _, after = value.partition("=")
    if value in ("@-", "@/dev/stdin"):
        return FILE_CONTENT in run.stdin
    return value.startswith("@") or after.startswith(("@", "<"))


def _wget_uploads(run: ProgramCall) -> bool:
    options = run.options("OoPUetT", ("post-file", "body-file", "post-data", "body-data"))
    if _is_loopback(options.operands):
        return False
    return options.has("", "post-file", "body-file") or FILE_CONTENT in "".join(run.args)


def _copies_to_remote(run: ProgramCall) -> bool:
    """To another machine, or from it over here: then the last is a place of ours."""
    longs = ("rsh", "exclude", "include", "filter", "files-from", "port")
    operands = run.options("cFiJloPSXeTfM", longs).operands
    return bool(operands) and _REMOTE_TARGET.match(operands[-1]) is not None


def _sends_to_socket(run: ProgramCall) -> bool:
    if run.program != "ssh" and {"-e", "-c", "--exec", "--sh-exec"} & set(run.args):
        return True
    if run.program == "openssl" and run.args[:1] != ("s_client",):
        return False
    return FILE_CONTENT in run.stdin and not _is_loopback(run.args)


def _has_file_content(run: ProgramCall) -> bool:
    return FILE_CONTENT in "".join(run.args)


def _copies_to_cloud(run: ProgramCall) -> bool:
    operands = [word for word in run.args if not word.startswith("-")]
    if not {"cp", "mv", "sync", "copy", "put", "rsync", "move"} & set(operands):
        return False
    return bool(operands) and re.match(r"^(s3|gs|az|b2)://|^\w+:", operands[-1]) is not None


UPLOAD_RULES = (
    ProgramRule(
        name="send-a-file",
        level=CommandRisk.DANGEROUS,
        why="It would send what a file holds to another machine.",
        programs=word_set("curl"),
        matches=_curl_uploads,
    ),
    ProgramRule(
        name="send-a-file-by-wget",
        level=CommandRisk.DANGEROUS,
        why="It would send what a file holds to another machine.",
        programs=word_set("wget"),
        matches=_wget_uploads,
    ),
    ProgramRule(
        name="copy-away",
        level=CommandRisk.DANGEROUS,
        why="It would copy files to another machine.",
        programs=word_set("scp rsync sftp"),
        matches=_copies_to_remote,
    ),
    ProgramRule(
        name="send-by-socket",
        level=CommandRisk.DANGEROUS,
        why="It would send data to another machine, or hand it a shell.",
        programs=word_set("nc ncat netcat nc.openbsd nc.traditional telnet socat openssl ssh"),
        matches=lambda run: _sends_to_socket(run) if run.program != "socat" else _opens_shell(run),
    ),
    ProgramRule(
        name="send-by-name",
        level=CommandRisk.DANGEROUS,
        why="It would send what a file holds, hidden in the name it asks for.",
        programs=word_set("dig nslookup host ping drill"),
        matches=_has_file_content,
    ),
    ProgramRule(
        name="send-by-mail",
        level=CommandRisk.DANGEROUS,
        why="It would send mail.",
        programs=word_set("mail mailx mutt sendmail msmtp swaks"),
    ),
    ProgramRule(
        name="store-away",
        level=CommandRisk.DANGEROUS,
        why="It would copy files to a store in the cloud.",
        programs=word_set("aws gsutil gcloud s3cmd rclone mc azcopy b2"),
        matches=_copies_to_cloud,
    ),
    ProgramRule(
        name="publish-a-paste",
        level=CommandRisk.DANGEROUS,
        why="It would put files where others can read them.",
        programs=word_set("gh glab pastebinit wormhole transfer croc"),
        matches=lambda run: (
            run.program not in ("gh", "glab")
            or {"gist", "create"} <= set(run.args)
            or {"snippet", "create"} <= set(run.args)
        ),
    ),
    ProgramRule(
        name="open-a-way-back",
        level=CommandRisk.DANGEROUS,
        why="It would let another machine reach this one through a tunnel.",
        programs=word_set("ssh autossh"),
        matches=lambda run: run.options("bcDEeFIiJLlmMOopQRSWw", mixed=False).has("R"),
    ),
    ProgramRule(
        name="serve-files",
        level=CommandRisk.DANGEROUS,
        why="It would let everybody on the network read files that are not in the workspace.",
        programs=word_set("python python3"),
        matches=lambda run: _serves_outside_files(run),
    ),
    ProgramRule(
        name="open-a-tunnel",
        level=CommandRisk.DANGEROUS,
        why="It would open this machine to others through a tunnel.",
        programs=word_set("ngrok cloudflared lt localtunnel bore frpc chisel"),
        matches=lambda run: bool(run.args),
    ),
)


def _serves_outside_files(run: ProgramCall) -> bool:
    if not {"http.server", "SimpleHTTPServer"} & set(run.args):
        return False
    options = run.options("dbp", ("directory", "bind", "protocol"))
    folder = options.value("d", "directory") or "."
    return run.paths.locate(folder) not in (
        PathLocation.INSIDE,
        PathLocation.WORKSPACE,
        PathLocation.TEMP,
    )


def _opens_shell(run: ProgramCall) -> bool:
    text = " ".join(run.args).lower()
    return "exec:" in text or "system:" in text or FILE_CONTENT in run.stdin
