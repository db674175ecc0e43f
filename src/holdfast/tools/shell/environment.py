"""Environment variables that make other programs run code: loaders and their search paths, files
and options that interpreters read first, commands that programs start, and package indexes."""

import re
import shlex
from collections.abc import Iterator

from holdfast.tools.shell.invocation import Hazard, NestedScript
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.packages import is_known_registry
from holdfast.tools.shell.paths import PathLocation, PathResolver

# fmt: off
_LIBRARIES = frozenset(("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"))
_SEARCH_PATHS = frozenset((
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH", "PYTHONPATH", "PYTHONHOME",
    "NODE_PATH", "PERL5LIB", "PERLLIB", "RUBYLIB", 
    "GCONV_PATH", "LUA_PATH", "LUA_CPATH", "CLASSPATH", "OPENSSL_CONF", "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "OPENSSL_MODULES",
    "OPENSSL_ENGINES", "QT_PLUGIN_PATH", "GIO_MODULE_DIR", "GST_PLUGIN_PATH", "GUILE_LOAD_PATH",
    "JULIA_LOAD_PATH", "R_PROFILE", "R_PROFILE_USER", "TCLLIBPATH", "VIMRUNTIME",
    "ZDOTDIR", "INPUTRC", "HGRCPATH", 
    "ANSIBLE_LIBRARY", "PHPRC", "PHP_INI_SCAN_DIR", "BASH_LOADABLES_PATH", "EMACSLOADPATH",
    "ERL_LIBS", "LESSKEY", "LESSKEYIN",
))
_SCRIPTS = frozenset(("BASH_ENV", "ENV", "PYTHONSTARTUP"))
_COMMANDS = frozenset((
    "GIT_SSH_COMMAND", "GIT_SSH", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_ASKPASS",
    "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "SSH_ASKPASS", "SUDO_ASKPASS", "EDITOR", "VISUAL",
    "FCEDIT", "SUDO_EDITOR", "SYSTEMD_EDITOR", "KUBE_EDITOR", "HGEDITOR", "SVN_EDITOR",
    "BUNDLER_EDITOR", "GEM_EDITOR", "CVS_RSH", "SVN_SSH", "BORG_RSH", "BORG_PASSCOMMAND",
    "RESTIC_PASSWORD_COMMAND", "PAGER", "MANPAGER", "SYSTEMD_PAGER", "PSQL_PAGER", "BAT_PAGER",
    "DELTA_PAGER", "GH_PAGER", "AWS_PAGER", "CRASHPAGER", "PERLDOC_PAGER", "RI_PAGER", "BROWSER",
    "LESSOPEN", "LESSCLOSE", "PROMPT_COMMAND", "RUSTC", "RUSTDOC", "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER", "RSYNC_RSH", "RSYNC_CONNECT_PROG", "CC", "CXX", "LD",
    "FZF_DEFAULT_COMMAND", "PSQL_EDITOR", "GOCACHEPROG", "CARGO_BUILD_RUSTC_WRAPPER",
))
_OPTIONS = frozenset((
    "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS",
    "MAVEN_OPTS", "GRADLE_OPTS", "SBT_OPTS", "CATALINA_OPTS", "JAVA_OPTS", "GOFLAGS", "MAKEFLAGS",
    "LESS", "ERL_AFLAGS", "ERL_FLAGS", "ELIXIR_ERL_OPTIONS", "DENO_V8_FLAGS", "BUN_OPTIONS",
    "CFLAGS", "CXXFLAGS", "RUSTFLAGS", "LDFLAGS",
))
_CODE = frozenset(("PERL5DB", "PYTHONBREAKPOINT", "PYTHONWARNINGS"))
_PROMPTS = frozenset(("PS0", "PS1", "PS2", "PS4"))
_INDEXES = frozenset((
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_TRUSTED_HOST", "UV_INDEX_URL",
    "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_FIND_LINKS", "UV_INSECURE_HOST",
    "PIPENV_PYPI_MIRROR", "PDM_PYPI_URL", "NPM_CONFIG_REGISTRY", "npm_config_registry",
    "YARN_REGISTRY", "YARN_NPM_REGISTRY_SERVER", "YARN_UNSAFE_HTTP_WHITELIST",
    "BUN_CONFIG_REGISTRY", "GOPROXY", "GONOSUMDB", "GONOSUMCHECK", "GOINSECURE", "GOSUMDB",
    "CARGO_REGISTRY_DEFAULT", "RUBYGEMS_HOST", "CARGO_REGISTRIES_CRATES_IO_INDEX",
    "RUSTUP_DIST_SERVER", "RUSTUP_UPDATE_ROOT", "GEM_SOURCE", "COREPACK_NPM_REGISTRY",
    "CONDA_CHANNELS", "CONDA_CHANNEL_ALIAS", "HOMEBREW_BOTTLE_DOMAIN", "HOMEBREW_ARTIFACT_DOMAIN",
    "NVM_NODEJS_ORG_MIRROR", "ELECTRON_MIRROR", "PLAYWRIGHT_DOWNLOAD_HOST",
))
_GO_SETTINGS = frozenset(("off", "direct", "on", "sum.golang.org"))
_COMMAND_SETTINGS = re.compile(
    r"core\.(sshcommand|fsmonitor|pager|editor|askpass|hookspath|gitproxy)|diff\.external"
    r"|(alias|pager|filter|merge|diff|credential|url|include\w*|protocol|remote)\..*"
    r"|sequence\.editor|gpg\.program|init\.templatedir|gpg\..*\.program",
    re.IGNORECASE,
)
# fmt: on
_SPECIAL_VARIABLES = (
    _LIBRARIES | _SEARCH_PATHS | _SCRIPTS | _COMMANDS | _OPTIONS | _CODE | _PROMPTS | _INDEXES
) | {"PATH", "GIT_CONFIG_PARAMETERS", "DOCKER_HOST", "TAR_OPTIONS"}
_FOREIGN = frozenset(
    (
        PathLocation.TEMP,
        PathLocation.TEMP_TREE,
        PathLocation.OUTSIDE,
        PathLocation.HOME,
        PathLocation.ROOT,
        PathLocation.DEVICE,
    )
)
_TEMPORARY = frozenset((PathLocation.TEMP, PathLocation.TEMP_TREE, PathLocation.DEVICE))
_AGENTS = re.compile(
    r"-(?:javaagent|agentpath|agentlib|Xbootclasspath\w*|Xbootclasspath/[ap])[:=](\S+)"
)
_TOOL_PROGRAMS = re.compile(r"-(?:toolexec|exec|overlay|vettool)[= ]['\"]?([^\s'\"]+)")
_NODE_MODULES = re.compile(
    r"(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader)[= ]['\"]?([^\s'\"]+)"
)
_INSPECTS = re.compile(r"--inspect\S{0,20}=(?!127\.|localhost|\d+(?:\s|$))")
_RUBY_FILES = re.compile(r"(?:^|\s)-[rI]\s*((?:/|\./|\.\./|~)\S*)")
_PERL_MODULES = re.compile(r"\s*(?:-?[MmIwWtTX][\w:=,/.~-]*(?:\s+|$))*")
_COMPILER_FILES = re.compile(r"(?:-fplugin=|-wrapper\s+|-specs=|linker=|-B\s*)([/~.]\S+)")
_DEBUGGERS = re.compile(r"0|(?:ipdb|pdb|pudb|bpdb|web_pdb|debugpy)(?:\.[\w.]+)?|")


_COMMAND_ENDINGS = ("_PAGER", "_ASKPASS", "_EDITOR", "_WRAPPER", "_LINKER")


def is_special(name: str) -> bool:
    return (
        name in _SPECIAL_VARIABLES
        or name.startswith(("BASH_FUNC_", "GIT_CONFIG_KEY_"))
        or (name.endswith(_COMMAND_ENDINGS))
    )


def variable_findings(
    name: str, value: str, paths: PathResolver, program: str = ""
) -> Iterator[Hazard | NestedScript]:
    """What it means for the programs that see it that the variable has this value. `program` is the
    only one that does, or empty."""
    if not value:
        return
    part = f"{name}={value}"
    if name in _COMMANDS or name.endswith(_COMMAND_ENDINGS):
        yield NestedScript(text=value, part=part)
    elif name in _PROMPTS:
        if "$(" in value or "`" in value:
            yield NestedScript(text=': "' + value.replace('"', '\\"') + '"', part=part)
    elif name == "TAR_OPTIONS":
        yield NestedScript(text=f"tar {value}", part=part)
    elif name in _INDEXES:
        if _is_foreign_index(name, value):
            yield Hazard.FOREIGN_PACKAGES
    elif name in _OPTIONS:
        yield from _option_findings(name, value, paths)
    elif name in _CODE:
        yield from _code_findings(name, value)
    elif _loads_foreign_code(name, value, paths, program):
        yield Hazard.FOREIGN_LIBRARY


def _loads_foreign_code(name: str, value: str, paths: PathResolver, program: str) -> bool:
    entries = [entry for entry in re.split(r"[:;]", value) if entry.strip()]
    if name == "PATH":
        # An empty entry is the current directory too. The grammar may cut off what follows a colon.
        relative = "" in value.split(":")[:-1] or any(
            entry in (".", "./", "..") for entry in entries
        )
        return relative or any(paths.locate(entry) in _TEMPORARY for entry in entries)
    if name.startswith(("BASH_FUNC_", "GIT_CONFIG_PARAMETERS")):
        return True
    if name.startswith("GIT_CONFIG_KEY_"):
        return _COMMAND_SETTINGS.fullmatch(value) is not None
    if name == "DOCKER_HOST":
        return value.startswith("tcp://") and "localhost" not in value and "127.0.0." not in value
    if name == "ENV" and "/" not in value:
        return False  # the name of a deployment
    if name in _SEARCH_PATHS:
        return any(paths.locate(entry) in _FOREIGN and entry != "/dev/null" for entry in entries)
    if name in _LIBRARIES or name in _SCRIPTS:
        trusted = [PathLocation.SYSTEM, PathLocation.UNKNOWN]
        if "/" in program and paths.locate(program) == PathLocation.INSIDE:
            trusted.append(PathLocation.INSIDE)  # both were built here
        return any(
            paths.locate(entry) not in trusted and entry != "/dev/null"
            for entry in (entries if name in _LIBRARIES else [value])
        )
    return False


def _is_foreign_index(name: str, value: str) -> bool:
    if name in ("GONOSUMDB", "GONOSUMCHECK", "GOINSECURE"):
        return True
    if name == "GOSUMDB":
        return value == "off"
    words = [word for word in re.split(r"[\s,|]+", value) if word and word not in _GO_SETTINGS]
    return any(UNKNOWN not in word and not is_known_registry(word) for word in words)


def _option_findings(name: str, value: str, paths: PathResolver) -> Iterator[Hazard | NestedScript]:
    """Options that an interpreter reads besides its own."""
    part = f"{name}={value}"
    given: list[str] = []
    if name in ("NODE_OPTIONS", "BUN_OPTIONS"):
        if _INSPECTS.search(value):
            yield Hazard.REMOTE_SHELL
        modules = [match[1] for match in _NODE_MODULES.finditer(value)]
        if any(
            word.startswith(("/", "./", "../", "~", "data:", "file:", "http")) for word in modules
        ):
            yield Hazard.FOREIGN_LIBRARY
    elif name == "RUBYOPT":
        given = [match[1] for match in _RUBY_FILES.finditer(value)]
    elif name == "PERL5OPT":
        if "-M-" in value or "base=" in value or not _PERL_MODULES.fullmatch(value):
            yield Hazard.FOREIGN_LIBRARY
        given = re.findall(r"(?:-I\s*|lib=)(\S+)", value)
    elif name in ("GOFLAGS", "MAKEFLAGS"):
        given = [match[1] for match in _TOOL_PROGRAMS.finditer(value)]
        if given or "--eval" in value:
            yield Hazard.FOREIGN_LIBRARY
    elif name.startswith("ERL") or name == "ELIXIR_ERL_OPTIONS":
        if "-eval" in value or "-run" in value:
            yield Hazard.FOREIGN_LIBRARY
    elif name == "LESS":
        yield from less_commands(value.split(), part)
    elif name.endswith("FLAGS"):
        given = [match[1] for match in _COMPILER_FILES.finditer(value)]
    else:
        given = [match[1].partition("=")[0] for match in _AGENTS.finditer(value)]
    if any(paths.locate(word) in _FOREIGN for word in given):
        yield Hazard.FOREIGN_LIBRARY


def _code_findings(name: str, value: str) -> Iterator[Hazard]:
    foreign = {
        "PERL5DB": True,
        "PYTHONBREAKPOINT": _DEBUGGERS.fullmatch(value) is None,
        "PYTHONWARNINGS": "antigravity" in value,
    }
    if foreign[name]:
        yield Hazard.FOREIGN_LIBRARY


def less_commands(words: list[str], part: str) -> Iterator[NestedScript]:
    """`+!command`, which less runs when it starts."""
    for word in words:
        if word.startswith(("+!", "++!", "+|")):
            yield NestedScript(text=word.lstrip("+!|"), part=part)


def exported(word: str) -> Iterator[NestedScript]:
    """An assignment among the words of `env` that makes a program run code, as a script."""
    name, _, value = word.partition("=")
    if name.startswith("BASH_FUNC_"):
        yield NestedScript(text=f"exported{value}; exported", part=word)
    elif is_special(name):
        yield NestedScript(text=f"export {name}={shlex.quote(value)}", part=word)
