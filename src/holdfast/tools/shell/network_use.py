"""Which hosts a command would contact, as far as its text tells.

Programs that open connections from a script file are not seen here: the network of the sandbox has
to report those.
"""

import re
from collections.abc import Iterable, Iterator

from holdfast.core.turns.external import NetworkUse, host_of, normalise_host
from holdfast.tools.shell.invocation import ProgramCall
from holdfast.tools.shell.markers import UNKNOWN, sanitise, strip_markers
from holdfast.tools.shell.parser import BashParser, ScriptTooComplex
from holdfast.tools.shell.paths import PathResolver
from holdfast.tools.shell.walker import ScriptWalker

_MAX_COMMAND = 100_000

# fmt: off
# Their operands are hosts or URLs.
_CLIENTS = frozenset((
    "curl", "wget", "http", "https", "xh", "aria2c", "lynx", "w3m", "links", "elinks", "ssh",
    "scp", "sftp", "rsync", "ftp", "lftp", "tftp", "telnet", "nc", "ncat", "netcat", "socat",
    "openssl", "dig", "nslookup", "host", "drill", "ping", "ping6", "traceroute", "tracepath",
    "whois", "mosh", "yt-dlp", "youtube-dl", "httpie", "websocat", "grpcurl", "mail", "mailx",
    "sendmail", "msmtp", "swaks", "s3cmd", "rclone", "smbclient", "ldapsearch", "mysql", "psql",
    "mongosh", "redis-cli", "nmap",
))
# They contact a registry or service of their own, whatever their operands are.
_SERVICES = {
    **dict.fromkeys(("pip", "pip3", "pipx", "uv", "uvx", "poetry", "pdm"), "pypi.org"),
    **dict.fromkeys(("npm", "npx", "yarn", "pnpm", "bun"), "registry.npmjs.org"),
    **dict.fromkeys(("apt", "apt-get", "aptitude", "dnf", "yum", "apk", "pacman"), ""),
    **dict.fromkeys(("brew", "snap", "flatpak", "conda", "mamba", "composer", "mvn"), ""),
    **dict.fromkeys(("docker", "podman", "skopeo", "kubectl", "helm", "terraform"), ""),
    **dict.fromkeys(("aws", "gcloud", "az", "gsutil", "doctl", "heroku", "vercel", "fly"), ""),
    **dict.fromkeys(("gh", "hub"), "api.github.com"),
    "gem": "rubygems.org",
    "bundle": "rubygems.org",
    "cargo": "crates.io",
    "go": "proxy.golang.org",
}
_LOCAL_SUBCOMMANDS = frozenset((
    "list", "ls", "show", "freeze", "check", "config", "cache", "help", "version", "run", "test",
    "build", "fmt", "vet", "clippy", "doc", "init", "inspect", "why", "ps", "images", "logs",
    "plan", "validate", "template", "--version", "-v", "--help", "env", "prefix", "root",
))
_REMOTE_GIT = frozenset((
    "clone", "fetch", "pull", "push", "ls-remote", "submodule", "archive", "remote", "send-email",
))
# fmt: on
_INTERPRETERS = re.compile(
    r"(python|pypy|node|deno|bun|perl|ruby|php|lua|awk|gawk|Rscript|osascript|pwsh)[\d.]*"
)
_NETWORK_CODE = re.compile(
    r"://|\b(socket|urllib\d?|requests|httpx|aiohttp|http\.client|smtplib|ftplib|paramiko|fetch\s*\("
    r"|https?\.(get|request)|net\.connect|dns\.|LWP|HTTP::|Net::|open-uri|TCPSocket|fsockopen"
    r"|curl_init|file_get_contents|/inet/)",
    re.IGNORECASE,
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
_SCP_TARGET = re.compile(r"(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)+|\[[0-9a-f:]+\]):(?!//)", re.IGNORECASE)
_BARE_HOST = re.compile(
    r"(?:[\w.+-]+@)?((?:[\w-]+\.)+[a-z][\w-]*|\d+(?:\.\d+){3})(?:[:/?].*)?", re.IGNORECASE
)
_DEV_TCP = re.compile(r"/dev/(?:tcp|udp)/([^/\s]+)/")
_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1|0\.0\.0\.0")
_WORDS = "|".join(
    re.escape(word) for word in sorted((*_CLIENTS, *_SERVICES, "git", "bun"), key=len, reverse=True)
)
# A command without any of these is not parsed.
_MAY_CONTACT = re.compile(
    rf"://|/dev/(tcp|udp)/|\\|\$|['\"`]|(?<![\w-])({_WORDS})(?![\w-])|{_NETWORK_CODE.pattern}",
    re.IGNORECASE,
)


class NetworkAnalyser:
    """Owns a parser; it keeps no state between commands."""

    def __init__(self) -> None:
        self._parser = BashParser()
        self._paths = PathResolver(workspaces=("/workspace",), home="/home/agent")

    def analyse(self, command: str) -> NetworkUse | None:
        """The network use of a command; None: it uses no network."""
        if not _MAY_CONTACT.search(command):
            return None
        if len(command) > _MAX_COMMAND:
            return NetworkUse(hosts=(), complete=False)
        walker = ScriptWalker(self._parser, self._paths)
        complete = True
        try:
            walker.walk_script(sanitise(command))
        except (ScriptTooComplex, RecursionError):
            complete = not _NETWORK_CODE.search(command)
        found: list[str] = [*_DEV_TCP.findall(command)]
        used = bool(found) or not complete
        for run in walker.programs:
            contacts = _contacts(run)
            if contacts is None:
                continue
            hosts, known = contacts
            used, complete = True, complete and known
            found += hosts
        hosts = [normalise_host(host) for host in found]
        remote = tuple(dict.fromkeys(host for host in hosts if not _LOOPBACK.fullmatch(host)))
        if not used or (complete and not remote):
            return None
        return NetworkUse(hosts=remote, complete=complete)


def _contacts(run: ProgramCall) -> tuple[list[str], bool] | None:
    """The hosts of one program, and whether these are all; None: it uses no network."""
    hidden = any(UNKNOWN in arg for arg in run.args)
    args = [strip_markers(arg) for arg in run.args]
    if run.program == "git":
        return _git_contacts(args, hidden=hidden)
    if run.program in _SERVICES:
        words = [arg for arg in args if not arg.startswith("-")]
        if not args or (words or args)[0] in _LOCAL_SUBCOMMANDS:
            return None
        own = _SERVICES[run.program]
        hosts = [*_urls(args), *([own] if own else [])]
        return hosts, bool(own) and not hidden
    if run.program in _CLIENTS:
        hosts = list(_hosts(args))
        return hosts, bool(hosts) and not hidden
    if _INTERPRETERS.fullmatch(run.program):
        code = "\n".join((*args, strip_markers(run.stdin)))
        return (list(_urls([code])), False) if _NETWORK_CODE.search(code) else None
    return None


def _git_contacts(args: list[str], *, hidden: bool) -> tuple[list[str], bool] | None:
    words = [arg for arg in args if not arg.startswith("-")]
    if not any(word in _REMOTE_GIT for word in words[:3]):
        return None
    hosts = list(_hosts(args, bare=False))
    return hosts, bool(hosts) and not hidden


def _urls(args: Iterable[str]) -> Iterator[str]:
    for arg in args:
        for url in _URL.findall(arg):
            if host := host_of(url):
                yield host


def _hosts(args: Iterable[str], *, bare: bool = True) -> Iterator[str]:
    for arg in args:
        found = list(_urls([arg]))
        if not found and (target := _SCP_TARGET.match(arg)):
            found = [target[1]]
        if not found and bare and (target := _BARE_HOST.fullmatch(arg)):
            found = [target[1]]
        if not found and bare and _LOOPBACK.match(arg):
            found = ["localhost"]
        yield from found
