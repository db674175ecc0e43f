"""Publishing: packages, images and releases, which nobody can take back."""

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.rules.rule import ProgramRule, is_dry_run, word_set
from holdfast.tools.shell.run import ProgramCall

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
    said = [word for word in run.args if not word.startswith("-")]
    if run.program in ("yarn", "docker", "podman") and said[:1] in (
        ["compose"],
        ["npm"],
        ["image"],
    ):
        said = said[1:]
    verbs = _PUBLISH_VERBS[run.program]
    depth = 2 if run.program in ("dotnet", "mvn", "gradle", "gradlew", "flutter", "pod") else 1
    if run.program in ("mvn", "gradle", "gradlew"):
        depth = len(said)
    named = {word.rpartition(":")[2] if "gradle" in run.program else word for word in said[:depth]}
    return bool(verbs & named) and not is_dry_run(run) and "--snapshot" not in run.args


def _uploads_package(run: ProgramCall) -> bool:
    words = set(run.args)
    if "setup.py" in words:
        return bool({"upload", "register"} & words)
    return {"-m", "twine", "upload"} <= words


def _deploys(run: ProgramCall) -> bool:
    said = [word for word in run.args if not word.startswith("-")]
    if is_dry_run(run) or "--noop" in run.args:
        return False
    if run.program in ("vercel", "now", "netlify"):
        chosen = run.options("t", ("target",)).value("", "target") == "production"
        return chosen or not {"--prod", "--production", "-p"}.isdisjoint(run.args)
    if run.program == "pulumi":
        return said[:1] == ["up"] and not {"-y", "--yes"}.isdisjoint(run.args)
    return not _DEPLOY_VERBS[run.program].isdisjoint(said[:2])


def _makes_release(run: ProgramCall) -> bool:
    said = tuple(word for word in run.args if not word.startswith("-"))
    return said[:2] in (("release", "create"), ("release", "delete"), ("release", "upload"))


PUBLISHING_RULES = (
    ProgramRule(
        name="publish-a-package",
        level=CommandRisk.DANGEROUS,
        why="It would publish a package or an image for everybody.",
        programs=frozenset(_PUBLISH_VERBS),
        matches=_publishes,
    ),
    ProgramRule(
        name="upload-a-package",
        level=CommandRisk.DANGEROUS,
        why="It would publish a package for everybody.",
        programs=word_set("python python3"),
        matches=_uploads_package,
    ),
    ProgramRule(
        name="deploy",
        level=CommandRisk.DANGEROUS,
        why="It would put this version where its users are.",
        programs=frozenset(_DEPLOY_VERBS),
        matches=_deploys,
    ),
    ProgramRule(
        name="make-a-release",
        level=CommandRisk.DANGEROUS,
        why="It would publish or delete a release.",
        programs=word_set("gh glab"),
        matches=_makes_release,
    ),
)
