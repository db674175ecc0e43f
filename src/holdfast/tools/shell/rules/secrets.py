"""Secrets: keys, tokens and passwords, read where they lie."""

import re

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.rules.rule import PathRule, ProgramRule, word_set
from holdfast.tools.shell.run import PathAction, PathEffect, ProgramCall

_SECRET_PATHS = re.compile(
    r"/\.ssh(/(id_[^/]*|[^/]*\.pem|[^/]*key|\*|identity)?)?$|/\.gnupg(/|$)|/\.netrc$|/\.pgpass$"
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
_METADATA_HOSTS = ("169.254.169.254", "metadata.google.internal", "100.100.100.200")


def _is_secret(touch: PathEffect, ground: PathLocation) -> bool:
    path = touch.paths.resolve(touch.path)
    return _SECRET_PATHS.search(path) is not None and _HARMLESS_PATHS.search(path) is None


def _exports_key(run: ProgramCall) -> bool:
    return any("export-secret" in word for word in run.args)


def _has_words(*wanted: str) -> "HasWords":
    return HasWords(wanted)


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
        why="It would read a key, a token or a password ({part}).",
        actions=frozenset((PathAction.READ,)),
        matches=_is_secret,
    ),
    ProgramRule(
        name="export-a-key",
        level=CommandRisk.DANGEROUS,
        why="It would bring a private key out of its keyring.",
        programs=word_set("gpg gpg2"),
        matches=_exports_key,
    ),
    ProgramRule(
        name="ask-a-keyring",
        level=CommandRisk.DANGEROUS,
        why="It would take a password out of a keyring.",
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
        why="It would print a secret of the cluster.",
        programs=word_set("kubectl oc"),
        matches=_shows_secret,
    ),
    ProgramRule(
        name="print-a-token",
        level=CommandRisk.DANGEROUS,
        why="It would print a token that opens an account.",
        programs=word_set("gh glab"),
        matches=_has_words("auth", "token"),
    ),
    ProgramRule(
        name="print-a-cloud-token",
        level=CommandRisk.DANGEROUS,
        why="It would print a token or a secret of a cloud account.",
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
        why="It would ask the cloud's machine service, which hands out keys.",
        programs=word_set("curl wget http https nc ncat python python3"),
        matches=lambda run: any(host in word for word in run.args for host in _METADATA_HOSTS),
    ),
)
