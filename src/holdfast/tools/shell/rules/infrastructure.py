"""Infrastructure: clouds, clusters and containers, taken down or changed for good."""

import re
from itertools import pairwise

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.rules.rule import RunRule, dry, names
from holdfast.tools.shell.run import Run

_CLOUD_VERB = re.compile(
    r"^(delete|terminate|destroy|remove|purge|deregister|disable|revoke|schedule-key-deletion"
    r"|reset|stop-instances|modify-db-instance)(-|$)"
)
_GRANTS = re.compile(
    r"^((attach|put)-(user|role|group|bucket|key)-policy|put-bucket-acl|put-object-acl"
    r"|(add|set)-iam-policy(-binding)?|authorize-security-group-\w+|create-(access-key|login-profile)"
    r"|delete-public-access-block|add-user-to-group|update-assume-role-policy)$"
)
_GRANTING = frozenset((("keys", "create"), ("assignment", "create"), ("acl", "ch"), ("iam", "ch")))
_DESTROYS = names(
    "destroy apps:destroy addons:destroy pg:reset remove delete rm undefine purge uninstall"
    " hosting:disable projects:delete databases:remove down"
)


def _said(run: Run) -> list[str]:
    return [word for word in run.args if not word.startswith("-")]


def _terraform(run: Run) -> bool:
    words = set(run.args)
    if "-help" in words:
        return False
    if "destroy" in words or "--auto-approve" in words or "-auto-approve" in words:
        return True
    if "-destroy" in words and "plan" not in words:
        return True
    said = _said(run)
    return said[:2] in (["state", "rm"], ["workspace", "delete"]) or said[:1] == ["force-unlock"]


def _cluster(run: Run) -> bool:
    said = _said(run)
    verbs = names("delete drain cordon evict taint")
    if dry(run):
        return False
    if verbs & set(said[:3]) or {"replace", "--force"} <= set(run.args):
        return True
    none = any(word in ("--replicas=0",) for word in run.args)
    return ("scale" in said and none) or {"rollout", "undo"} <= set(said)


def _containers(run: Run) -> bool:
    said, options = _said(run), run.options()
    if said[:1] == ["compose"] or run.program == "docker-compose":
        return "down" in said and options.has("v", "volumes")
    if "prune" in said[:2]:
        # What nothing refers to any more is built again when it is wanted.
        return said[0] not in ("image", "builder", "buildx") or options.has("a", "all")
    if said[:2] in (["volume", "rm"], ["volume", "remove"], ["swarm", "leave"], ["stack", "rm"]):
        return True
    every = any(UNKNOWN in word for word in run.args)
    return said[:1] in (["rm"], ["rmi"], ["kill"]) and every


def _cloud(run: Run) -> bool:
    said = _said(run)
    if dry(run):
        return False
    if run.program == "aws" and said[:2] == ["s3", "rm"]:
        return "--recursive" in run.args
    if run.program == "aws" and said[:2] == ["s3", "rb"]:
        return True
    if run.program == "aws" and said[:2] == ["s3", "sync"]:
        return "--delete" in run.args
    return any(_CLOUD_VERB.match(word) for word in said[:6])


def _opens_account(run: Run) -> bool:
    said = _said(run)
    if any(_GRANTS.match(word) for word in said[:5]):
        return True
    return any(pair in _GRANTING for pair in pairwise(said[:6]))


def _buckets(run: Run) -> bool:
    said = set(_said(run)) & names("rm rb del purge delete deletefile sync move rmdir")
    deep = run.options().has("rR", "recursive", "force", "delete-removed")
    if run.program == "rclone":
        return bool(said & names("purge delete sync rmdir move")) and not dry(run)
    return bool(said & names("rb")) or (bool(said) and deep)


def _hosts(run: Run) -> bool:
    return bool(_DESTROYS & set(_said(run)[:3])) and not dry(run)


def _forge(run: Run) -> bool:
    said = tuple(_said(run)[:2])
    if said in (("repo", "delete"), ("repo", "archive"), ("secret", "delete"), ("repo", "edit")):
        return True
    verb = run.options("XfFH", ("method", "field", "raw-field", "header")).value("X", "method")
    return said[:1] == ("api",) and (verb or "").upper() == "DELETE"


RULES = (
    RunRule(
        name="destroy-infrastructure",
        level=Level.DANGEROUS,
        why="It would destroy or change infrastructure without asking again.",
        programs=names("terraform tofu terragrunt"),
        sees=_terraform,
    ),
    RunRule(
        name="destroy-a-stack",
        level=Level.DANGEROUS,
        why="It would take down something that runs for others.",
        programs=names(
            "pulumi cdk cdktf sls serverless vagrant virsh heroku fly flyctl vercel netlify railway"
            " firebase helm eksctl kops multipass lxc copilot eb now wrangler supabase minikube"
            " kind k3d"
        ),
        sees=_hosts,
    ),
    RunRule(
        name="delete-from-a-cluster",
        level=Level.DANGEROUS,
        why="It would delete or stop what runs in a cluster.",
        programs=names("kubectl oc k"),
        sees=_cluster,
    ),
    RunRule(
        name="prune-containers",
        level=Level.DANGEROUS,
        why="It would delete containers, images or volumes with what is in them.",
        programs=names("docker podman nerdctl docker-compose"),
        sees=_containers,
    ),
    RunRule(
        name="delete-from-a-cloud",
        level=Level.DANGEROUS,
        why="It would delete or stop something in a cloud account.",
        programs=names(
            "aws gcloud az doctl linode-cli hcloud oci ibmcloud aliyun bq scw vultr-cli"
        ),
        sees=_cloud,
    ),
    RunRule(
        name="open-an-account",
        level=Level.DANGEROUS,
        why="It would give somebody rights or keys in a cloud account, or open it to everybody.",
        programs=names("aws gcloud az gsutil"),
        sees=_opens_account,
    ),
    RunRule(
        name="empty-a-bucket",
        level=Level.DANGEROUS,
        why="It would delete a store of files in the cloud.",
        programs=names("gsutil s3cmd mc rclone b2 azcopy s5cmd"),
        sees=_buckets,
    ),
    RunRule(
        name="delete-a-repository",
        level=Level.DANGEROUS,
        why="It would delete a repository or something of it at its host.",
        programs=names("gh glab"),
        sees=_forge,
    ),
)
