"""Sending: files and secrets out to other machines, and doors opened for them."""

import re

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.markers import READ
from holdfast.tools.shell.paths import Ground
from holdfast.tools.shell.rules.rule import RunRule, names
from holdfast.tools.shell.run import Run

_HERE = re.compile(r"^(https?://)?(localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0)([:/]|$)")
_THERE = re.compile(r"^([\w.-]+@)?[\w.-]{2,}:(?!//)|^(rsync|ssh|sftp|ftp|scp)://")
_CURL = "oXHdFuAebTxmKwCDEPQrtyYz"
_CURL_LONGS = (
    "data", "data-binary", "data-raw", "data-urlencode", "data-ascii", "form", "upload-file",
    "output", "request", "header", "user", "url", "json", "max-time", "proxy", "cookie", "referer",
    "user-agent", "write-out", "retry", "connect-timeout", "config",
)  # fmt: skip


def _near(words: tuple[str, ...]) -> bool:
    return any(_HERE.match(word) for word in words)


def _curl_sends(run: Run) -> bool:
    options = run.options(_CURL, _CURL_LONGS)
    if _near(options.operands) or _near(tuple(value for _, value in options.longs)):
        return False
    if READ in "".join(run.args):
        return True
    given = [value for name, value in options.values if name in "dF"]
    given += [v for name, v in options.longs if name.startswith(("data", "form", "json"))]
    if any(_names_file(value, run) for value in given):
        return True
    return options.value("T", "upload-file") is not None


def _names_file(value: str, run: Run) -> bool:
    _, _, after = value.partition("=")
    if value in ("@-", "@/dev/stdin"):
        return READ in run.stdin
    return value.startswith("@") or after.startswith(("@", "<"))


def _wget_sends(run: Run) -> bool:
    options = run.options("OoPUetT", ("post-file", "body-file", "post-data", "body-data"))
    if _near(options.operands):
        return False
    return options.has("", "post-file", "body-file") or READ in "".join(run.args)


def _copies_away(run: Run) -> bool:
    """To another machine, or from it over here: then the last is a place of ours."""
    longs = ("rsh", "exclude", "include", "filter", "files-from", "port")
    operands = run.options("cFiJloPSXeTfM", longs).operands
    return bool(operands) and _THERE.match(operands[-1]) is not None


def _connects_with_data(run: Run) -> bool:
    if run.program != "ssh" and {"-e", "-c", "--exec", "--sh-exec"} & set(run.args):
        return True
    if run.program == "openssl" and run.args[:1] != ("s_client",):
        return False
    return READ in run.stdin and not _near(run.args)


def _names_data(run: Run) -> bool:
    return READ in "".join(run.args)


def _stores_away(run: Run) -> bool:
    operands = [word for word in run.args if not word.startswith("-")]
    if not {"cp", "mv", "sync", "copy", "put", "rsync", "move"} & set(operands):
        return False
    return bool(operands) and re.match(r"^(s3|gs|az|b2)://|^\w+:", operands[-1]) is not None


RULES = (
    RunRule(
        name="send-a-file",
        level=Level.DANGEROUS,
        why="It would send what a file holds to another machine.",
        programs=names("curl"),
        sees=_curl_sends,
    ),
    RunRule(
        name="send-a-file-by-wget",
        level=Level.DANGEROUS,
        why="It would send what a file holds to another machine.",
        programs=names("wget"),
        sees=_wget_sends,
    ),
    RunRule(
        name="copy-away",
        level=Level.DANGEROUS,
        why="It would copy files to another machine.",
        programs=names("scp rsync sftp"),
        sees=_copies_away,
    ),
    RunRule(
        name="send-by-socket",
        level=Level.DANGEROUS,
        why="It would send data to another machine, or hand it a shell.",
        programs=names("nc ncat netcat nc.openbsd nc.traditional telnet socat openssl ssh"),
        sees=lambda run: _connects_with_data(run) if run.program != "socat" else _opens_shell(run),
    ),
    RunRule(
        name="send-by-name",
        level=Level.DANGEROUS,
        why="It would send what a file holds, hidden in the name it asks for.",
        programs=names("dig nslookup host ping drill"),
        sees=_names_data,
    ),
    RunRule(
        name="send-by-mail",
        level=Level.DANGEROUS,
        why="It would send mail.",
        programs=names("mail mailx mutt sendmail msmtp swaks"),
    ),
    RunRule(
        name="store-away",
        level=Level.DANGEROUS,
        why="It would copy files to a store in the cloud.",
        programs=names("aws gsutil gcloud s3cmd rclone mc azcopy b2"),
        sees=_stores_away,
    ),
    RunRule(
        name="publish-a-paste",
        level=Level.DANGEROUS,
        why="It would put files where others can read them.",
        programs=names("gh glab pastebinit wormhole transfer croc"),
        sees=lambda run: (
            run.program not in ("gh", "glab")
            or {"gist", "create"} <= set(run.args)
            or {"snippet", "create"} <= set(run.args)
        ),
    ),
    RunRule(
        name="open-a-way-back",
        level=Level.DANGEROUS,
        why="It would let another machine reach this one through a tunnel.",
        programs=names("ssh autossh"),
        sees=lambda run: run.options("bcDEeFIiJLlmMOopQRSWw", mixed=False).has("R"),
    ),
    RunRule(
        name="serve-files",
        level=Level.DANGEROUS,
        why="It would let everybody on the network read files that are not in the workspace.",
        programs=names("python python3"),
        sees=lambda run: _serves_away(run),
    ),
    RunRule(
        name="open-a-tunnel",
        level=Level.DANGEROUS,
        why="It would open this machine to others through a tunnel.",
        programs=names("ngrok cloudflared lt localtunnel bore frpc chisel"),
        sees=lambda run: bool(run.args),
    ),
)


def _serves_away(run: Run) -> bool:
    if not {"http.server", "SimpleHTTPServer"} & set(run.args):
        return False
    options = run.options("dbp", ("directory", "bind", "protocol"))
    folder = options.value("d", "directory") or "."
    return run.place.ground(folder) not in (Ground.INSIDE, Ground.WORKSPACE, Ground.TEMP)


def _opens_shell(run: Run) -> bool:
    text = " ".join(run.args).lower()
    return "exec:" in text or "system:" in text or READ in run.stdin
