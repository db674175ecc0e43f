"""Infrastructure: clouds, clusters and containers, taken down or changed for good."""

import re
from itertools import pairwise

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.rules.rule import ProgramRule, is_dry_run, word_set
from holdfast.tools.shell.run import ProgramCall

_CLOUD_VERB = re.compile(
    r"^(delete|terminate|destroy|remove|purge|deregister|disable|revoke|schedule-key-deletion"
    r"|reset|stop-instances|modify-db-instance)(-|$)"
)
_GRANT_VERBS = re.compile(
    r"^((attach|put)-(user|role|group|bucket|key)-policy|put-bucket-acl|put-object-acl"
    r"|(add|set)-iam-policy(-binding)?|authorize-security-group-\w+|create-(access-key|login-profile)"
    r"|delete-public-access-block|add-user-to-group|update-assume-role-policy)$"
)
_GRANT_PAIRS = frozenset(
    (("keys", "create"), ("assignment", "create"), ("acl", "ch"), ("iam", "ch"))
)
_DESTROY_VERBS = word_set(
    "destroy apps:destroy addons:destroy pg:reset remove delete rm undefine purge uninstall"
    " hosting:disable projects:delete databases:remove down"
)


def _words(run: ProgramCall) -> list[str]:
    return [word for word in run.args if not word.startswith("-")]


def _destroys_infrastructure(run: ProgramCall) -> bool:
    words = set(run.args)
    if "-help" in words:
        return False
    if "destroy" in words or "--auto-approve" in words or "-auto-approve" in words:
        return True
    if "-destroy" in words and "plan" not in words:
        return True
    said = _words(run)
    return said[:2] in (["state", "rm"], ["workspace", "delete"]) or said[:1] == ["force-unlock"]


def _deletes_from_cluster(run: ProgramCall) -> bool:
    said = _words(run)
    verbs = word_set("delete drain cordon evict taint")
    if is_dry_run(run):
        return False
    if verbs & set(said[:3]) or {"replace", "--force"} <= set(run.args):
        return True
    none = any(word in ("--replicas=0",) for word in run.args)
    return ("scale" in said and none) or {"rollout", "undo"} <= set(said)


def _prunes_containers(run: ProgramCall) -> bool:
    said, options = _words(run), run.options()
    if said[:1] == ["compose"] or run.program == "docker-compose":
        return "down" in said and options.has("v", "volumes")
    if "prune" in said[:2]:
        # What nothing refers to any more is built again when it is wanted.
        return said[0] not in ("image", "builder", "buildx") or options.has("a", "all")
    if said[:2] in (["volume", "rm"], ["volume", "remove"], ["swarm", "leave"], ["stack", "rm"]):
        return True
    every = any(UNKNOWN in word for word in run.args)
    return said[:1] in (["rm"], ["rmi"], ["kill"]) and every


def _deletes_from_cloud(run: ProgramCall) -> bool:
    said = _words(run)
    if is_dry_run(run):
        return False
    if run.program == "aws" and said[:2] == ["s3", "rm"]:
        return "--recursive" in run.args
    if run.program == "aws" and said[:2] == ["s3", "rb"]:
        return True
    if run.program == "aws" and said[:2] == ["s3", "sync"]:
        return "--delete" in run.args
    return any(_CLOUD_VERB.match(word) for word in said[:6])


def _grants_access(run: ProgramCall) -> bool:
    said = _words(run)
    if any(_GRANT_VERBS.match(word) for word in said[:5]):
        return True
    return any(pair in _GRANT_PAIRS for pair in pairwise(said[:6]))


def _empties_bucket(run: ProgramCall) -> bool:
    said = set(_words(run)) & word_set("rm rb del purge delete deletefile sync move rmdir")
    deep = run.options().has("rR", "recursive", "force", "delete-removed")
    if run.program == "rclone":
        return bool(said & word_set("purge delete sync rmdir move")) and not is_dry_run(run)
    return bool(said & word_set("rb")) or (bool(said) and deep)


def _destroys_stack(run: ProgramCall) -> bool:
    return bool(_DESTROY_VERBS & set(_words(run)[:3])) and not is_dry_run(run)


def _deletes_repository(run: ProgramCall) -> bool:
    said = tuple(_words(run)[:2])
    if said in (("repo", "delete"), ("repo", "archive"), ("secret", "delete"), ("repo", "edit")):
        return True
    verb = run.options("XfFH", ("method", "field", "raw-field", "header")).value("X", "method")
    return said[:1] == ("api",) and (verb or "").upper() == "DELETE"


INFRASTRUCTURE_RULES = (
    ProgramRule(
        name="destroy-infrastructure",
        level=CommandRisk.DANGEROUS,
        why="It would destroy or change infrastructure without asking again.",
        programs=word_set("terraform tofu terragrunt"),
        matches=_destroys_infrastructure,
    ),
    ProgramRule(
        name="destroy-a-stack",
        level=CommandRisk.DANGEROUS,
        why="It would take down something that runs for others.",
        programs=word_set(
            "pulumi cdk cdktf sls serverless vagrant virsh heroku fly flyctl vercel netlify railway"
            " firebase helm eksctl kops multipass lxc copilot eb now wrangler supabase minikube"
            " kind k3d"
        ),
        matches=_destroys_stack,
    ),
    ProgramRule(
        name="delete-from-a-cluster",
        level=CommandRisk.DANGEROUS,
        why="It would delete or stop what runs in a cluster.",
        programs=word_set("kubectl oc k"),
        matches=_deletes_from_cluster,
    ),
    ProgramRule(
        name="prune-containers",
        level=CommandRisk.DANGEROUS,
        why="It would delete containers, images or volumes with what is in them.",
        programs=word_set("docker podman nerdctl docker-compose"),
        matches=_prunes_containers,
    ),
    ProgramRule(
        name="delete-from-a-cloud",
        level=CommandRisk.DANGEROUS,
        why="It would delete or stop something in a cloud account.",
        programs=word_set(
            "aws gcloud az doctl linode-cli hcloud oci ibmcloud aliyun bq scw vultr-cli"
        ),
        matches=_deletes_from_cloud,
    ),
    ProgramRule(
        name="open-an-account",
        level=CommandRisk.DANGEROUS,
        why="It would give somebody rights or keys in a cloud account, or open it to everybody.",
        programs=word_set("aws gcloud az gsutil"),
        matches=_grants_access,
    ),
    ProgramRule(
        name="empty-a-bucket",
        level=CommandRisk.DANGEROUS,
        why="It would delete a store of files in the cloud.",
        programs=word_set("gsutil s3cmd mc rclone b2 azcopy s5cmd"),
        matches=_empties_bucket,
    ),
    ProgramRule(
        name="delete-a-repository",
        level=CommandRisk.DANGEROUS,
        why="It would delete a repository or something of it at its host.",
        programs=word_set("gh glab"),
        matches=_deletes_repository,
    ),
)
