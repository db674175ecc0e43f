"""Publishing: packages, images and releases, which nobody can take back."""

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.rules.rule import RunRule, dry, names
from holdfast.tools.shell.run import Run

_VERBS: dict[str, frozenset[str]] = {
    "npm": names("publish unpublish deprecate owner"),
    "pnpm": names("publish"),
    "yarn": names("publish"),
    "bun": names("publish"),
    "lerna": names("publish"),
    "npx": names("semantic-release np release-it"),
    "cargo": names("publish yank"),
    "poetry": names("publish"),
    "uv": names("publish"),
    "hatch": names("publish"),
    "pdm": names("publish"),
    "flit": names("publish"),
    "twine": names("upload"),
    "gem": names("push yank"),
    "docker": names("push"),
    "podman": names("push"),
    "buildah": names("push"),
    "skopeo": names("copy"),
    "crane": names("push"),
    "helm": names("push"),
    "mvn": names("deploy release:perform"),
    "gradle": names("publish publishToMavenCentral uploadArchives"),
    "gradlew": names("publish publishToMavenCentral uploadArchives"),
    "dotnet": names("push"),
    "nuget": names("push"),
    "vsce": names("publish"),
    "ovsx": names("publish"),
    "goreleaser": names("release"),
    "mix": names("hex.publish"),
    "dart": names("publish"),
    "flutter": names("publish"),
    "pod": names("trunk"),
    "conda": names("upload"),
    "anaconda": names("upload"),
    "snapcraft": names("upload release push"),
    "firebase": names("deploy"),
    "changeset": names("publish"),
}


_DEPLOYS: dict[str, frozenset[str]] = {
    "vercel": names(""),
    "now": names(""),
    "netlify": names(""),
    "pulumi": names("up"),
    "wrangler": names("deploy publish"),
    "fly": names("deploy"),
    "flyctl": names("deploy"),
    "gcloud": names("deploy"),
    "cdk": names("deploy"),
    "sls": names("deploy"),
    "serverless": names("deploy"),
    "eb": names("deploy"),
    "amplify": names("publish push"),
    "railway": names("up"),
    "gh-pages": names("gh-pages"),
}


def _publishes(run: Run) -> bool:
    said = [word for word in run.args if not word.startswith("-")]
    if run.program in ("yarn", "docker", "podman") and said[:1] in (
        ["compose"],
        ["npm"],
        ["image"],
    ):
        said = said[1:]
    verbs = _VERBS[run.program]
    depth = 2 if run.program in ("dotnet", "mvn", "gradle", "gradlew", "flutter", "pod") else 1
    if run.program in ("mvn", "gradle", "gradlew"):
        depth = len(said)
    named = {word.rpartition(":")[2] if "gradle" in run.program else word for word in said[:depth]}
    return bool(verbs & named) and not dry(run) and "--snapshot" not in run.args


def _uploads(run: Run) -> bool:
    words = set(run.args)
    if "setup.py" in words:
        return bool({"upload", "register"} & words)
    return {"-m", "twine", "upload"} <= words


def _deploys(run: Run) -> bool:
    said = [word for word in run.args if not word.startswith("-")]
    if dry(run) or "--noop" in run.args:
        return False
    if run.program in ("vercel", "now", "netlify"):
        chosen = run.options("t", ("target",)).value("", "target") == "production"
        return chosen or not {"--prod", "--production", "-p"}.isdisjoint(run.args)
    if run.program == "pulumi":
        return said[:1] == ["up"] and not {"-y", "--yes"}.isdisjoint(run.args)
    return not _DEPLOYS[run.program].isdisjoint(said[:2])


def _releases(run: Run) -> bool:
    said = tuple(word for word in run.args if not word.startswith("-"))
    return said[:2] in (("release", "create"), ("release", "delete"), ("release", "upload"))


RULES = (
    RunRule(
        name="publish-a-package",
        level=Level.DANGEROUS,
        why="It would publish a package or an image for everybody.",
        programs=frozenset(_VERBS),
        sees=_publishes,
    ),
    RunRule(
        name="upload-a-package",
        level=Level.DANGEROUS,
        why="It would publish a package for everybody.",
        programs=names("python python3"),
        sees=_uploads,
    ),
    RunRule(
        name="deploy",
        level=Level.DANGEROUS,
        why="It would put this version where its users are.",
        programs=frozenset(_DEPLOYS),
        sees=_deploys,
    ),
    RunRule(
        name="make-a-release",
        level=Level.DANGEROUS,
        why="It would publish or delete a release.",
        programs=names("gh glab"),
        sees=_releases,
    ),
)
