"""Secrets: keys, tokens and passwords, read where they lie."""

import re

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.paths import Ground
from holdfast.tools.shell.rules.rule import PathRule, RunRule, names
from holdfast.tools.shell.run import Deed, Run, Touch

_SECRET = re.compile(
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
_MILD = re.compile(r"\.pub$|known_hosts$|/\.ssh/config$|\.(example|sample|template|dist)$")
_METADATA = ("169.254.169.254", "metadata.google.internal", "100.100.100.200")


def _is_secret(touch: Touch, ground: Ground) -> bool:
    path = touch.place.resolve(touch.path)
    return _SECRET.search(path) is not None and _MILD.search(path) is None


def _exports_key(run: Run) -> bool:
    return any("export-secret" in word for word in run.args)


def _says(*wanted: str) -> "Sees":
    return Sees(wanted)


class Sees:
    """Whether the arguments have these words one after the other, options aside."""

    def __init__(self, wanted: tuple[str, ...]) -> None:
        self._wanted = wanted

    def __call__(self, run: Run) -> bool:
        words = [word for word in run.args if not word.startswith("-")]
        return any(
            tuple(words[at : at + len(self._wanted)]) == self._wanted for at in range(len(words))
        )


def _shows_secret(run: Run) -> bool:
    words = [word for word in run.args if not word.startswith("-")]
    shown = any(word.startswith(("-o", "--output", "--template")) for word in run.args)
    about = any(word.split("/")[0] in ("secret", "secrets") for word in words)
    return about and shown and "get" in words


RULES = (
    PathRule(
        name="read-a-secret",
        level=Level.DANGEROUS,
        why="It would read a key, a token or a password ({part}).",
        deeds=frozenset((Deed.READ,)),
        sees=_is_secret,
    ),
    RunRule(
        name="export-a-key",
        level=Level.DANGEROUS,
        why="It would bring a private key out of its keyring.",
        programs=names("gpg gpg2"),
        sees=_exports_key,
    ),
    RunRule(
        name="ask-a-keyring",
        level=Level.DANGEROUS,
        why="It would take a password out of a keyring.",
        programs=names("security secret-tool pass op bw lpass keyring vault"),
        sees=lambda run: bool(
            names(
                "find-generic-password find-internet-password dump-keychain lookup show get read"
                " item export-keychain kv"
            )
            & set(run.args)
        ),
    ),
    RunRule(
        name="show-a-cluster-secret",
        level=Level.DANGEROUS,
        why="It would print a secret of the cluster.",
        programs=names("kubectl oc"),
        sees=_shows_secret,
    ),
    RunRule(
        name="print-a-token",
        level=Level.DANGEROUS,
        why="It would print a token that opens an account.",
        programs=names("gh glab"),
        sees=_says("auth", "token"),
    ),
    RunRule(
        name="print-a-cloud-token",
        level=Level.DANGEROUS,
        why="It would print a token or a secret of a cloud account.",
        programs=names("gcloud aws az heroku"),
        sees=lambda run: (
            bool(
                names(
                    "print-access-token print-identity-token get-access-token get-secret-value"
                    " get-session-token get-login-password auth:token create-access-key"
                )
                & set(run.args)
            )
            or _says("secrets", "versions", "access")(run)
            or _says("keyvault", "secret", "show")(run)
        ),
    ),
    RunRule(
        name="ask-the-cloud-for-keys",
        level=Level.DANGEROUS,
        why="It would ask the cloud's machine service, which hands out keys.",
        programs=names("curl wget http https nc ncat python python3"),
        sees=lambda run: any(host in word for word in run.args for host in _METADATA),
    ),
)
