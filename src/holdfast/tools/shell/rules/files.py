"""Rules about files: deletion, permissions, system files, secrets."""

import re

from holdfast.core.people.approval import CommandRisk
from holdfast.core.text.translation import N_
from holdfast.tools.shell.hosts import names_metadata_service
from holdfast.tools.shell.invocation import PathAction, PathEffect, ProgramCall
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.rules.base import PathRule, ProgramRule, word_set

_WHOLE_SYSTEM = (PathLocation.ROOT, PathLocation.SYSTEM_TREE)
_NOT_OURS = (
    PathLocation.OUTSIDE,
    PathLocation.SYSTEM,
    PathLocation.TEMP_TREE,
    PathLocation.DEVICE,
    PathLocation.HOME,
)


def _is_git_history(effect: PathEffect, location: PathLocation) -> bool:
    return effect.path.rstrip("/*").endswith(".git") and location == PathLocation.INSIDE


def _is_not_ours(effect: PathEffect, location: PathLocation) -> bool:
    return location in _NOT_OURS and not effect.paths.is_harmless_device(effect.path)


def _forces_root(run: ProgramCall) -> bool:
    return run.options().has("", "no-preserve-root") and run.options().has("rR", "recursive")


DELETION_RULES = (
    PathRule(
        name="delete-the-system",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would delete system files ({part}) and make the machine unusable."),
        actions=frozenset((PathAction.DELETE,)),
        matches=lambda effect, location: location in _WHOLE_SYSTEM,
    ),
    ProgramRule(
        name="delete-the-root",
        level=CommandRisk.FORBIDDEN,
        why=N_("It switches off the protection against deleting the root folder."),
        programs=word_set("rm"),
        matches=_forces_root,
    ),
    PathRule(
        name="delete-a-home",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would delete everything in a user's home ({part})."),
        actions=frozenset((PathAction.DELETE,)),
        matches=lambda effect, location: location == PathLocation.HOME,
    ),
    PathRule(
        name="delete-the-workspace",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete everything in the workspace ({part})."),
        actions=frozenset((PathAction.DELETE,)),
        matches=lambda effect, location: location == PathLocation.WORKSPACE,
    ),
    PathRule(
        name="delete-a-history",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete a repository's history ({part})."),
        actions=frozenset((PathAction.DELETE,)),
        matches=_is_git_history,
    ),
    PathRule(
        name="delete-outside",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete {part}, which is not in the workspace."),
        actions=frozenset((PathAction.DELETE, PathAction.REMOVE)),
        matches=_is_not_ours,
    ),
    PathRule(
        name="delete-unknown",
        level=CommandRisk.DANGEROUS,
        why=N_("It would delete a folder that is only known when it runs ({part})."),
        actions=frozenset((PathAction.DELETE,)),
        matches=lambda effect, location: location == PathLocation.UNKNOWN,
    ),
)


_WITHIN_SESSION = (PathLocation.INSIDE, PathLocation.TEMP, PathLocation.CACHE, PathLocation.UNKNOWN)
_SETUID_MODE = re.compile(r"[ug+,]*\+[rwx]*s|0?[2467]\d{3}")

PERMISSION_RULES = (
    PathRule(
        name="permissions-of-the-system",
        level=CommandRisk.FORBIDDEN,
        why=N_(
            "It would change the owner or permissions of everything in {part}, which "
            "breaks the system."
        ),
        actions=frozenset((PathAction.MAKE_WRITABLE, PathAction.CHANGE_OWNER_OR_MODE)),
        matches=lambda effect, location: location in (PathLocation.ROOT, PathLocation.SYSTEM_TREE),
    ),
    PathRule(
        name="open-to-everybody",
        level=CommandRisk.DANGEROUS,
        why=N_("It would let every user write to everything in {part}."),
        actions=frozenset((PathAction.MAKE_WRITABLE,)),
        matches=lambda effect, location: location != PathLocation.TEMP,
    ),
    PathRule(
        name="permissions-of-a-tree",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change the owner or permissions of everything in {part}."),
        actions=frozenset((PathAction.CHANGE_OWNER_OR_MODE,)),
        matches=lambda effect, location: location not in (*_WITHIN_SESSION, PathLocation.WORKSPACE),
    ),
    ProgramRule(
        name="run-as-another",
        level=CommandRisk.DANGEROUS,
        why=N_("It would make a program run with its owner's rights for every user who starts it."),
        programs=word_set("chmod install"),
        matches=lambda run: any(_is_setuid(word, run) for word in run.args),
    ),
    ProgramRule(
        name="capabilities",
        level=CommandRisk.DANGEROUS,
        why=N_("It would give a program system rights."),
        programs=word_set("setcap capsh"),
    ),
)


def _is_setuid(word: str, run: ProgramCall) -> bool:
    mode = word.removeprefix("--mode=")
    return _SETUID_MODE.fullmatch(mode) is not None


_WRITE_ACTIONS = frozenset(
    (
        PathAction.WRITE,
        PathAction.REMOVE,
        PathAction.DELETE,
        PathAction.CHANGE_OWNER_OR_MODE,
        PathAction.MAKE_WRITABLE,
    )
)
_STARTUP_FILES = re.compile(
    r"/\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile"
    r"|zlogin|kshrc|cshrc|tcshrc|login|xinitrc|xprofile|xsession|inputrc|pam_environment)$"
    r"|/\.config/(fish/|autostart/|systemd/)|/\.ssh(/|$)|/Library/Launch|/\.git/hooks/"
    r"|/cron(tab|\.\w+)?(/|$)|/\.gitconfig$|/\.config/git/|/ld\.so\.preload$|sitecustomize\.py$"
)
_LOGIN_FILES = re.compile(r"^/etc/(passwd|shadow|group|gshadow|sudoers(\.d/.*)?|fstab)$|^/boot/")
_HISTORY_FILES = re.compile(r"/\.(bash_|zsh_|python_|psql_|mysql_)?history$|^/var/log/")


def _is_startup_file(effect: PathEffect, location: PathLocation) -> bool:
    path = effect.paths.resolve(effect.path)
    if location == PathLocation.INSIDE and "/.git/hooks/" not in path:
        return False
    return _STARTUP_FILES.search(path) is not None


SYSTEM_FILE_RULES = (
    PathRule(
        name="gateway-home",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would change the gateway's own files ({part})."),
        actions=_WRITE_ACTIONS,
        matches=lambda effect, location: effect.paths.is_of_gateway(effect.path),
    ),
    PathRule(
        name="read-gateway-home",
        level=CommandRisk.DANGEROUS,
        why=N_("It would read the gateway's own files ({part})."),
        actions=frozenset((PathAction.READ,)),
        matches=lambda effect, location: effect.paths.is_of_gateway(effect.path),
    ),
    PathRule(
        name="start-up-file",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change what runs automatically or who may log in ({part})."),
        actions=_WRITE_ACTIONS,
        matches=_is_startup_file,
    ),
    PathRule(
        name="who-may-enter",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change who may log in to this machine, or how it starts ({part})."),
        actions=_WRITE_ACTIONS,
        matches=lambda effect, location: (
            _LOGIN_FILES.search(effect.paths.resolve(effect.path)) is not None
        ),
    ),
    PathRule(
        name="cover-tracks",
        level=CommandRisk.DANGEROUS,
        why=N_("It would change or empty a log ({part})."),
        actions=_WRITE_ACTIONS,
        matches=lambda effect, location: (
            _HISTORY_FILES.search(effect.paths.resolve(effect.path)) is not None
        ),
    ),
    PathRule(
        name="system-file",
        level=CommandRisk.DANGEROUS,
        why=N_("It would write to a system file or folder ({part})."),
        actions=_WRITE_ACTIONS,
        matches=lambda effect, location: (
            location in (PathLocation.SYSTEM, PathLocation.SYSTEM_TREE, PathLocation.ROOT)
        ),
    ),
)


_SECRET_PATHS = re.compile(
    r"/id_(rsa|dsa|ecdsa|ed25519)$|/\.ssh(/(id_[^/]*|[^/]*\.pem|[^/]*key|\*|identity)?)?$|/\.gnupg(/|$)|/\.netrc$|/\.pgpass$"
    r"|/\.aws(/(credentials|config|\*)?)?$|/\.kube(/(config|\*)?)?$|/\.docker(/config\.json)?$"
    r"|/\.(npmrc|pypirc|git-credentials|my\.cnf|vault-token|htpasswd|boto|s3cfg)$|/\.azure(/|$)"
    r"|/\.config/(gcloud|gh|hub|op|rclone|doctl)(/|$)|/\.password-store(/|$)|/\.local/share/keyrings"
    r"|^/etc/(shadow|gshadow|sudoers|ssl/private|ssh/ssh_host_[^.]*key)|/\.terraform\.d/cred"
    r"|^/proc/[^/]*/(environ|mem)$|^/(var/)?run/secrets|/(Cookies|Login Data)$"
    r"|/(logins\.json|key4\.db)$"
    r"|/Keychains(/|$)|/\.(bash|zsh)_history$|/\.cargo/credentials|/\.holdfast(/|$)|/wallet\.dat$"
    r"|/\.(env|env\.(local|production|prod|staging|development|dev))$"
)
_HARMLESS_PATHS = re.compile(
    r"\.pub$|known_hosts$|/\.ssh/config$|\.(example|sample|template|dist)$"
)


def _is_secret(effect: PathEffect, location: PathLocation) -> bool:
    path = effect.paths.resolve(effect.path)
    return _SECRET_PATHS.search(path) is not None and _HARMLESS_PATHS.search(path) is None


def _asks_metadata_service(run: ProgramCall) -> bool:
    return any(names_metadata_service(text) for text in (*run.args, run.stdin))


def _exports_key(run: ProgramCall) -> bool:
    return any("export-secret" in word for word in run.args)


def _has_words(*expected: str) -> "HasWords":
    return HasWords(expected)


class HasWords:
    """Whether the arguments have these words one after the other, options aside."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words

    def __call__(self, run: ProgramCall) -> bool:
        words = [word for word in run.args if not word.startswith("-")]
        return any(
            tuple(words[at : at + len(self._words)]) == self._words for at in range(len(words))
        )


def _shows_secret(run: ProgramCall) -> bool:
    words = [word for word in run.args if not word.startswith("-")]
    shown = any(word.startswith(("-o", "--output", "--template")) for word in run.args)
    about = any(word.split("/")[0] in ("secret", "secrets") for word in words)
    return about and shown and "get" in words


SECRET_RULES = (
    PathRule(
        name="read-a-secret",
        level=CommandRisk.DANGEROUS,
        why=N_("It would read a key, a token or a password ({part})."),
        actions=frozenset((PathAction.READ,)),
        matches=_is_secret,
    ),
    ProgramRule(
        name="export-a-key",
        level=CommandRisk.DANGEROUS,
        why=N_("It would export a private key from a keyring."),
        programs=word_set("gpg gpg2"),
        matches=_exports_key,
    ),
    ProgramRule(
        name="ask-a-keyring",
        level=CommandRisk.DANGEROUS,
        why=N_("It would read a password from a keyring."),
        programs=word_set("security secret-tool pass op bw lpass keyring vault"),
        matches=lambda run: bool(
            word_set(
                "find-generic-password find-internet-password dump-keychain lookup show get read"
                " item export-keychain kv"
            )
            & set(run.args)
        ),
    ),
    ProgramRule(
        name="show-a-cluster-secret",
        level=CommandRisk.DANGEROUS,
        why=N_("It would print a secret of the cluster."),
        programs=word_set("kubectl oc"),
        matches=_shows_secret,
    ),
    ProgramRule(
        name="print-a-token",
        level=CommandRisk.DANGEROUS,
        why=N_("It would print a token that gives access to an account."),
        programs=word_set("gh glab"),
        matches=_has_words("auth", "token"),
    ),
    ProgramRule(
        name="print-a-cloud-token",
        level=CommandRisk.DANGEROUS,
        why=N_("It would print a token or a secret of a cloud account."),
        programs=word_set("gcloud aws az heroku"),
        matches=lambda run: (
            bool(
                word_set(
                    "print-access-token print-identity-token get-access-token get-secret-value"
                    " get-session-token get-login-password auth:token create-access-key"
                )
                & set(run.args)
            )
            or _has_words("secrets", "versions", "access")(run)
            or _has_words("keyvault", "secret", "show")(run)
        ),
    ),
    ProgramRule(
        name="ask-the-cloud-for-keys",
        level=CommandRisk.DANGEROUS,
        why=N_("It would query the metadata service of the cloud, which issues keys."),
        programs=word_set(
            "curl wget http https xh httpie curlie wget2 aria2c nc ncat netcat socat telnet openssl"
            " lynx w3m links elinks python python3 perl ruby node php deno bun lua ssh awk gawk"
            " chromium google-chrome firefox wscat websocat lwp-request GET POST hurl nmap"
        ),
        matches=_asks_metadata_service,
    ),
)
