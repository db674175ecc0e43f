"""Where package managers get code from: registries that everybody uses, and addresses."""

import re

import msgspec

from holdfast.tools.shell.invocation import ProgramCall
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.paths import PathLocation

_REGISTRIES = frozenset(
    (
        "pypi.org", "pypi.python.org", "files.pythonhosted.org", "registry.npmjs.org",
        "registry.yarnpkg.com", "npm.jsr.io", "index.crates.io", "static.crates.io", "crates.io",
        "github.com/rust-lang/crates.io-index", "rubygems.org", "index.rubygems.org",
        "proxy.golang.org", "conda.anaconda.org", "repo.anaconda.com", "repo.maven.apache.org",
        "packagist.org", "repo.packagist.org", "download.pytorch.org", "deb.debian.org",
        "archive.ubuntu.com", "dl-cdn.alpinelinux.org", "static.rust-lang.org", "nodejs.org",
    )
)  # fmt: skip
_SCHEME = re.compile(r"^[\w.+-]+://(?:[^/@]*@)?")
_LOOPBACK = re.compile(r"^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?(?:/|$)")
_ADDRESS = re.compile(
    r"^(?:(?:git|hg|svn|bzr)\+)?(?:https?|ftp|git|ssh|s3|gs)://|^(?:git|hg|svn|bzr)\+|^git@"
    r"|^(?:github|gitlab|bitbucket|gist):|@(?:git\+|https?://|git@)|^[\w.-]+@[\w.-]+:"
    r"|@(?:github|gitlab|bitbucket):|^\w[\w.-]*(?:\[[\w,-]*\])?\s+@\s",
    re.IGNORECASE,
)
_NPM_REPOSITORY = re.compile(r"^(?![@.~/])[\w-]+/[\w.-]+(?:#.*)?$")
_FOREIGN = frozenset(
    (PathLocation.TEMP, PathLocation.TEMP_TREE, PathLocation.OUTSIDE, PathLocation.HOME)
)
_PACKAGE_FILE = re.compile(r"\.(?:deb|rpm|apk|snap|flatpak|pkg\.tar\.\w+)$")


def is_known_registry(url: str) -> bool:
    """Whether it is a public registry, or one on this machine."""
    rest = _SCHEME.sub("", url)
    if _LOOPBACK.match(rest):
        return True
    return any(
        rest == known or rest.startswith(known + "/") for known in _REGISTRIES
    ) and not url.startswith("http://")


def is_address(word: str) -> bool:
    """Whether it names a package by where it is, rather than by its name."""
    return _ADDRESS.search(word) is not None


class _Installer(msgspec.Struct, frozen=True, kw_only=True):
    """Which words of a package manager add packages, and which options say from where."""

    verbs: frozenset[str] = frozenset()  # none: each run adds some
    sources: frozenset[str] = (
        frozenset()
    )  # options whose value is an index, a channel or an address
    flags: frozenset[str] = frozenset()  # options that switch the verification off
    repositories: bool = False  # `user/repository` is an address
    files: bool = False  # a package file changes the machine
    folders: bool = False  # a folder is a package, which is installed by running it


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PIP = _Installer(
    verbs=_words("install download wheel add run tool sync compile inject"),
    sources=_words(
        "--index-url --extra-index-url -i -f --find-links --default-index --index --trusted-host"
    ),
    folders=True,
)
_PIP_RUNNER = msgspec.structs.replace(_PIP, verbs=frozenset())
_NPM = _Installer(
    verbs=_words("install i in add ci exec x dlx create init update up upgrade link"),
    sources=_words("--registry"),
    repositories=True,
)
_NPM_RUNNER = msgspec.structs.replace(_NPM, verbs=frozenset())
_SYSTEM = _Installer(
    verbs=_words("install add localinstall reinstall in upgrade"),
    sources=_words("--repository -X --repofrompath"),
    flags=_words(
        "--allow-unauthenticated --allow-untrusted --nogpgcheck --no-gpg-checks --force-yes"
        " --allow-insecure-repositories --dangerous"
    ),
    files=True,
)
_CONDA = _Installer(verbs=_words("install create update env"), sources=_words("-c --channel"))
_BUILD = _Installer(verbs=_words("build"))
_INSTALLERS: dict[str, _Installer] = {
    **dict.fromkeys(_words("pip pip2 pip3 uv pipx pipenv poetry pdm rye hatch"), _PIP),
    **dict.fromkeys(_words("uvx easy_install"), _PIP_RUNNER),
    **dict.fromkeys(_words("npm pnpm yarn bun bower"), _NPM),
    **dict.fromkeys(_words("npx bunx pnpx"), _NPM_RUNNER),
    **dict.fromkeys(_words("apt apt-get aptitude dnf yum microdnf zypper apk snap opkg"), _SYSTEM),
    **dict.fromkeys(_words("conda mamba micromamba"), _CONDA),
    **dict.fromkeys(_words("docker podman"), _BUILD),
    "cargo": _Installer(
        verbs=_words("install add binstall"), sources=_words("--git --index --registry")
    ),
    "gem": _Installer(verbs=_words("install fetch update"), sources=_words("-s --source")),
    "bundle": _Installer(verbs=_words("add install"), sources=_words("-s --source --git --github")),
    "composer": _Installer(
        verbs=_words("require create-project install global"),
        sources=_words("--repository --repository-url"),
    ),
    "go": _Installer(verbs=_words("install get run")),
    "deno": _Installer(verbs=_words("run install eval cache add")),
    "brew": _Installer(verbs=_words("install reinstall")),
    "cpanm": _Installer(sources=_words("--mirror")),
    "luarocks": _Installer(verbs=_words("install"), sources=_words("--server --only-server")),
    "opam": _Installer(verbs=_words("install pin")),
    "helm": _Installer(verbs=_words("install upgrade"), sources=_words("--repo")),
    "nix-env": _Installer(sources=_words("-f --file")),
    "kubectl": _Installer(verbs=_words("apply create replace"), sources=_words("-f --filename -k")),
    "ansible-galaxy": _Installer(verbs=_words("install"), sources=_words("-s --server")),
    "code": _Installer(sources=_words("--install-extension")),
}
INSTALLERS = frozenset(_INSTALLERS)
_FOLDER_OPTIONS = ("-C", "--prefix", "--cwd", "--dir", "--working-dir")
_ALWAYS_FOREIGN = frozenset(("--trusted-host", "--git", "--github"))


def installs_foreign_packages(run: ProgramCall) -> bool:
    """Whether it installs or runs packages from an address, or from an index that is not public."""
    installer, words = _INSTALLERS[run.program], run.args
    verb = next((word for word in words if word in installer.verbs), "")
    if installer.verbs and not verb:
        return False
    if not installer.flags.isdisjoint(words):
        return True
    for at, word in enumerate(words):
        if word.startswith("-"):
            name, value = _option(word, words[at + 1] if at + 1 < len(words) else "", installer)
            if name in installer.sources and _is_foreign_source(name, value, run):
                return True
            elsewhere = installer.repositories and name in _FOLDER_OPTIONS
            if elsewhere and run.paths.locate(value) in _FOREIGN:
                return True
        elif word != verb and _is_foreign_package(word, installer, run):
            return True
    return False


def _option(word: str, after: str, installer: _Installer) -> tuple[str, str]:
    """Its name, and its value: behind an equals sign, behind the letter, or in the next word."""
    name, equals, value = word.partition("=")
    if len(word) > 2 and word[:2] in installer.sources:
        return word[:2], word[2:].lstrip("=")
    return name, value if equals else after


def _is_foreign_source(option: str, value: str, run: ProgramCall) -> bool:
    if not value or UNKNOWN in value:
        return False
    if option in _ALWAYS_FOREIGN:
        return True
    if run.program == "cargo" and option in ("--registry", "--index"):
        return value != "crates-io"
    if option == "--install-extension":
        return value.endswith(".vsix")
    return is_address(value) and not is_known_registry(value)


def _is_foreign_package(word: str, installer: _Installer, run: ProgramCall) -> bool:
    if word[:1] == UNKNOWN:
        return False
    if is_address(word):
        return not is_known_registry(word) or word.startswith(("git+", "git@"))
    if installer.files:
        return _PACKAGE_FILE.search(word) is not None
    if installer.repositories:
        return _NPM_REPOSITORY.match(word) is not None and _adds(word, run)
    if installer.folders and "install" in run.args:
        return word.startswith(("/", "~")) and run.paths.locate(word) in _FOREIGN
    return False


def _adds(word: str, run: ProgramCall) -> bool:
    """Whether it is a package: what follows the first word of `npx` or `npm exec` is not one."""
    words = [given for given in run.args if not given.startswith("-")]
    if run.program in ("npx", "bunx", "pnpx"):
        return words[:1] == [word]
    return words[0] not in ("exec", "x", "dlx", "init", "create") or words[1:2] == [word]


_SOURCE_SETTINGS: dict[str, tuple[tuple[str, ...], ...]] = {
    "pip": (("config", "set"),),
    "pip3": (("config", "set"),),
    "npm": (("config", "set"), ("set",)),
    "yarn": (("config", "set"),),
    "pnpm": (("config", "set"),),
    "poetry": (("source", "add"), ("config",)),
    "pdm": (("config",),),
    "gem": (("sources",), ("source",)),
    "bundle": (("config",),),
    "conda": (("config",),),
    "mamba": (("config",),),
    "composer": (("config",),),
    "go": (("env", "-w"),),
    "dnf": (("config-manager",),),
    "yum-config-manager": ((),),
    "zypper": (("ar",), ("addrepo",)),
    "add-apt-repository": ((),),
    "apt-add-repository": ((),),
    "apt-key": (("add",), ("adv",)),
    "rpm": (("--import",),),
    "flatpak": (("remote-add",),),
    "brew": (("tap",),),
    "luarocks": (("config",),),
    "opam": (("repository",), ("repo",)),
}
SOURCE_PROGRAMS = frozenset(_SOURCE_SETTINGS)
_SETTING_NAMES = re.compile(
    r"registry|index|source|channel|mirror|proxy|repositor|find-links|trusted|npmRegistryServer"
    r"|script-shell|goflags|gosumdb",
    re.IGNORECASE,
)


def changes_package_source(run: ProgramCall) -> bool:
    """Whether later installs would come from somewhere else."""
    words = run.args
    for prefix in _SOURCE_SETTINGS[run.program]:
        if words[: len(prefix)] == prefix and len(words) > len(prefix):
            if run.program.endswith(("-repository", "-key", "-manager")) or run.program == "brew":
                return not {"-r", "--remove", "--list", "list"} & set(words)
            rest = " ".join(words)
            addresses = [
                word.partition("=")[2] or word for word in words if "://" in word or "ppa:" in word
            ]
            named = _SETTING_NAMES.search(rest) is not None
            return named and any(not is_known_registry(word) for word in addresses)
    return False
