"""Rules about what leaves the machine: uploads, tunnels, published packages, deployments and
releases."""

import re

from holdfast.core.people.approval import CommandRisk
from holdfast.core.text.translation import N_
from holdfast.tools.shell.invocation import ProgramCall
from holdfast.tools.shell.markers import FILE_CONTENT
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.rules.base import ProgramRule, is_dry_run, word_set

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
    """Whether it copies to another machine; otherwise it copies from there, and the last path is
    local."""
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
    verbs = ("cp", "mv", "sync", "copy", "copyto", "put", "rsync", "move", "moveto", "mirror")
    at = next((at for at, word in enumerate(operands) if word in verbs), None)
    if at is None or is_dry_run(run):
        return False
    given = [word for word in operands[at + 1 :] if not word.isalnum() or _CLOUD.match(word)]
    return any(_CLOUD.match(word) for word in given[1:])


def _puts_file(run: ProgramCall) -> bool:
    """In the language of ftp: `put`, as an argument or a line of its input."""
    words = {word for text in (*run.args, run.stdin) for word in re.split(r"[\s;]+", text)}
    if {"put", "mput", "send", "reput"} & words or FILE_CONTENT in run.stdin:
        return True
    return "mirror" in words and bool({"-R", "--reverse"} & words)


def _backs_up_elsewhere(run: ProgramCall) -> bool:
    if not {"backup", "create", "copy", "push", "init", "full", "incremental"} & set(run.args):
        return False
    return any(_BACKUP_TARGET.search(word) for word in run.args)


def _relays_file(run: ProgramCall) -> bool:
    """socat from a file to the network."""
    text = " ".join(run.args).lower()
    return (
        re.search(r"(?:^|\s)(?:file|open|gopen|create|pipe):", text) is not None
        and re.search(r"(?:tcp|udp|openssl|ssl|socks|sctp)\S*:", text) is not None
        and not re.search(r":(?:localhost|127\.0\.0\.1):", text)
    )


_CLOUD = re.compile(r"^(?:s3|gs|az|b2|r2|oss|minio)://|^[\w-]{2,}:")
_BACKUP_TARGET = re.compile(
    r"(?:rest|sftp|s3|b2|azure|gs|swift|rclone|ssh|webdavs?|ftps?):|@[\w.-]+:"
)
_SOCKETS = re.compile(
    r"(?:docker|containerd|podman|crio|cri-dockerd|buildkitd|dockershim|lxd/unix|incus/unix|snapd)\.(?:sock|socket)"
)
_SOCKET_OPTIONS = ("--unix-socket", "--abstract-unix-socket")
_SOCKET_ADDRESSES = re.compile(
    r"^(?:unix|abstract)-(?:connect|client|sendto)?:?(.*)", re.IGNORECASE
)


def _uses_local_socket(run: ProgramCall) -> bool:
    """A socket of a service of this machine: not one that the workspace contains."""
    if any(_SOCKETS.search(word) for word in run.args):
        return True
    sockets: list[str] = []
    for at, word in enumerate(run.args):
        name, equals, value = word.partition("=")
        after = run.args[at + 1] if at + 1 < len(run.args) else ""
        if run.program in ("curl", "curlie") and name in _SOCKET_OPTIONS:
            if name == "--abstract-unix-socket":
                return True
            sockets.append(value if equals else after)
        elif run.program == "socat" and (match := _SOCKET_ADDRESSES.match(word)) is not None:
            if word.lower().startswith("abstract"):
                return True
            sockets.append(match[1].partition(",")[0])
        elif run.program in ("nc", "ncat", "netcat") and word.startswith("-") and "U" in word:
            sockets.append(run.args[-1])
        elif run.program in ("docker", "podman") and word in ("-H", "--host", "--url"):
            sockets.append(after.removeprefix("unix://"))
    ours = (PathLocation.INSIDE, PathLocation.UNKNOWN)
    return any(path and run.paths.locate(path) not in ours for path in sockets)


_REMOTE_ACCESS_VERBS: dict[str, frozenset[str]] = {
    "tailscale": word_set("up ssh serve funnel set login"),
    "zerotier-cli": word_set("join"),
    "wg-quick": word_set("up"),
    "code": word_set("tunnel serve-web"),
    "nmcli": word_set("up add modify"),
}
_SERVERS = word_set(
    "sshd dropbear telnetd in.telnetd ttyd gotty wetty tmate upterm teleconsole x11vnc vncserver"
    " x0vncserver Xvnc xrdp rustdesk anydesk teamviewer sshuttle ssh-copy-id openvpn autossh frps"
    " revsocks ligolo-agent pwncat dnscat dnscat2 iodine iodined ptunnel"
)


def _opens_access(run: ProgramCall) -> bool:
    verbs = _REMOTE_ACCESS_VERBS.get(run.program)
    if verbs is None:
        return not {"--help", "-h", "--version", "-V", "-v", "-t", "-T"} & set(run.args[:1])
    return bool(verbs & set(run.args[:2]))


UPLOAD_RULES = (
    ProgramRule(
        name="send-a-file",
        level=CommandRisk.DANGEROUS,
        why=N_("It would send the content of a file to another machine."),
        programs=word_set("curl"),
        matches=_curl_uploads,
    ),
    ProgramRule(
        name="send-a-file-by-wget",
        level=CommandRisk.DANGEROUS,
        why=N_("It would send the content of a file to another machine."),
        programs=word_set("wget"),
        matches=_wget_uploads,
    ),
    ProgramRule(
        name="copy-away",
        level=CommandRisk.DANGEROUS,
        why=N_("It would copy files to another machine."),
        programs=word_set("scp rsync sftp"),
        matches=_copies_to_remote,
    ),
    ProgramRule(
        name="send-by-socket",
        level=CommandRisk.DANGEROUS,
        why=N_("It would send data to another machine, or give it a shell."),
        programs=word_set("nc ncat netcat nc.openbsd nc.traditional telnet socat openssl ssh"),
        matches=lambda run: _sends_to_socket(run) if run.program != "socat" else _opens_shell(run),
    ),
    ProgramRule(
        name="send-by-name",
        level=CommandRisk.DANGEROUS,
        why=N_("It would send the content of a file, hidden in a host name."),
        programs=word_set(
            "dig nslookup host ping drill whois finger rlogin rsh kdig delv logger resolvectl"
            " hping3 snmpset traceroute getent"
        ),
        matches=_has_file_content,
    ),
    ProgramRule(
        name="put-a-file",
        level=CommandRisk.DANGEROUS,
        why=N_("It would send files to another machine."),
        programs=word_set("ftp tftp sftp lftp ncftp ncftpput smbclient cadaver tnftp kermit"),
        matches=_puts_file,
    ),
    ProgramRule(
        name="back-up-elsewhere",
        level=CommandRisk.DANGEROUS,
        why=N_("It would copy files to another machine."),
        programs=word_set("restic borg duplicity kopia duplicacy bup rdiff-backup"),
        matches=_backs_up_elsewhere,
    ),
    ProgramRule(
        name="relay-a-file",
        level=CommandRisk.DANGEROUS,
        why=N_("It would send the content of a file to another machine."),
        programs=word_set("socat"),
        matches=_relays_file,
    ),
    ProgramRule(
        name="local-service-socket",
        level=CommandRisk.DANGEROUS,
        why=N_("It would talk to a service of this machine through its socket."),
        programs=word_set(
            "curl curlie nc ncat netcat socat docker podman python python3 nerdctl wget"
        ),
        matches=_uses_local_socket,
    ),
    ProgramRule(
        name="open-remote-access",
        level=CommandRisk.DANGEROUS,
        why=N_("It would let another machine control this one, or join them into one network."),
        programs=_SERVERS | frozenset(_REMOTE_ACCESS_VERBS),
        matches=_opens_access,
    ),
    ProgramRule(
        name="send-by-mail",
        level=CommandRisk.DANGEROUS,
        why=N_("It would send mail."),
        programs=word_set("mail mailx mutt sendmail msmtp swaks"),
    ),
    ProgramRule(
        name="store-away",
        level=CommandRisk.DANGEROUS,
        why=N_("It would copy files to cloud storage."),
        programs=word_set("aws gsutil gcloud s3cmd rclone mc azcopy b2 s5cmd az oci"),
        matches=_copies_to_cloud,
    ),
    ProgramRule(
        name="publish-a-paste",
        level=CommandRisk.DANGEROUS,
        why=N_("It would put files where others can read them."),
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
        why=N_("It would let another machine reach this one through a tunnel."),
        programs=word_set("ssh autossh"),
        matches=lambda run: run.options("bcDEeFIiJLlmMOopQRSWw", mixed=False).has("R"),
    ),
    ProgramRule(
        name="serve-files",
        level=CommandRisk.DANGEROUS,
        why=N_("It would let all machines on the network read files outside the workspace."),
        programs=word_set("python python3"),
        matches=lambda run: _serves_outside_files(run),
    ),
    ProgramRule(
        name="open-a-tunnel",
        level=CommandRisk.DANGEROUS,
        why=N_("It would make this machine reachable through a tunnel."),
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


_PUBLISH_VERBS: dict[str, frozenset[str]] = {
    "npm": word_set("publish unpublish deprecate owner"),
    "pnpm": word_set("publish"),
    "yarn": word_set("publish"),
    "bun": word_set("publish"),
    "lerna": word_set("publish"),
    "npx": word_set("semantic-release np release-it"),
    "cargo": word_set("publish yank"),
    "poetry": word_set("publish"),
    "uv": word_set("publish"),
    "hatch": word_set("publish"),
    "pdm": word_set("publish"),
    "flit": word_set("publish"),
    "twine": word_set("upload"),
    "gem": word_set("push yank"),
    "docker": word_set("push"),
    "podman": word_set("push"),
    "buildah": word_set("push"),
    "skopeo": word_set("copy"),
    "crane": word_set("push"),
    "helm": word_set("push"),
    "mvn": word_set("deploy release:perform"),
    "gradle": word_set("publish publishToMavenCentral uploadArchives"),
    "gradlew": word_set("publish publishToMavenCentral uploadArchives"),
    "dotnet": word_set("push"),
    "nuget": word_set("push"),
    "vsce": word_set("publish"),
    "ovsx": word_set("publish"),
    "goreleaser": word_set("release"),
    "mix": word_set("hex.publish"),
    "dart": word_set("publish"),
    "flutter": word_set("publish"),
    "pod": word_set("trunk"),
    "conda": word_set("upload"),
    "anaconda": word_set("upload"),
    "snapcraft": word_set("upload release push"),
    "firebase": word_set("deploy"),
    "changeset": word_set("publish"),
}


_DEPLOY_VERBS: dict[str, frozenset[str]] = {
    "vercel": word_set(""),
    "now": word_set(""),
    "netlify": word_set(""),
    "pulumi": word_set("up"),
    "wrangler": word_set("deploy publish"),
    "fly": word_set("deploy"),
    "flyctl": word_set("deploy"),
    "gcloud": word_set("deploy"),
    "cdk": word_set("deploy"),
    "sls": word_set("deploy"),
    "serverless": word_set("deploy"),
    "eb": word_set("deploy"),
    "amplify": word_set("publish push"),
    "railway": word_set("up"),
    "gh-pages": word_set("gh-pages"),
}


def _publishes(run: ProgramCall) -> bool:
    words = [word for word in run.args if not word.startswith("-")]
    if run.program in ("yarn", "docker", "podman") and words[:1] in (
        ["compose"],
        ["npm"],
        ["image"],
    ):
        words = words[1:]
    verbs = _PUBLISH_VERBS[run.program]
    depth = 2 if run.program in ("dotnet", "mvn", "gradle", "gradlew", "flutter", "pod") else 1
    if run.program in ("mvn", "gradle", "gradlew"):
        depth = len(words)
    named = {word.rpartition(":")[2] if "gradle" in run.program else word for word in words[:depth]}
    return bool(verbs & named) and not is_dry_run(run) and "--snapshot" not in run.args


def _uploads_package(run: ProgramCall) -> bool:
    words = set(run.args)
    if "setup.py" in words:
        return bool({"upload", "register"} & words)
    return {"-m", "twine", "upload"} <= words


def _deploys(run: ProgramCall) -> bool:
    words = [word for word in run.args if not word.startswith("-")]
    if is_dry_run(run) or "--noop" in run.args:
        return False
    if run.program in ("vercel", "now", "netlify"):
        chosen = run.options("t", ("target",)).value("", "target") == "production"
        return chosen or not {"--prod", "--production", "-p"}.isdisjoint(run.args)
    if run.program == "pulumi":
        return words[:1] == ["up"] and not {"-y", "--yes"}.isdisjoint(run.args)
    return not _DEPLOY_VERBS[run.program].isdisjoint(words[:2])


def _makes_release(run: ProgramCall) -> bool:
    words = tuple(word for word in run.args if not word.startswith("-"))
    return words[:2] in (("release", "create"), ("release", "delete"), ("release", "upload"))


PUBLISHING_RULES = (
    ProgramRule(
        name="publish-a-package",
        level=CommandRisk.DANGEROUS,
        why=N_("It would publish a package or an image."),
        programs=frozenset(_PUBLISH_VERBS),
        matches=_publishes,
    ),
    ProgramRule(
        name="upload-a-package",
        level=CommandRisk.DANGEROUS,
        why=N_("It would publish a package."),
        programs=word_set("python python3"),
        matches=_uploads_package,
    ),
    ProgramRule(
        name="deploy",
        level=CommandRisk.DANGEROUS,
        why=N_("It would deploy this version."),
        programs=frozenset(_DEPLOY_VERBS),
        matches=_deploys,
    ),
    ProgramRule(
        name="make-a-release",
        level=CommandRisk.DANGEROUS,
        why=N_("It would publish or delete a release."),
        programs=word_set("gh glab"),
        matches=_makes_release,
    ),
)
