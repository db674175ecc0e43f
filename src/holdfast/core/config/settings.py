"""The settings: every key of holdfast.toml with its default and its limits."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

import msgspec

from holdfast.core.ids import SessionKey
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.people.approval import REQUESTER, ApprovalScope, CommandPattern
from holdfast.core.sessions.reset import Hour, Minutes, ResetMode, ResetRule
from holdfast.core.turns.external import TaintPolicy
from holdfast.core.turns.pricing import Price

TOOLSETS = (
    "terminal",
    "files",
    "web",
    "todo",
    "memory",
    "delegate",
    "sessions",
    "schedule",
    "messages",
    "browser",
)
LOCAL_SERVERS = (
    "http://127.0.0.1:11434/v1",  # Ollama
    "http://127.0.0.1:1234/v1",  # LM Studio
    "http://127.0.0.1:8080/v1",  # llama.cpp
    "http://127.0.0.1:8000/v1",  # vLLM
)
SECRET_ENDINGS = ("token", "key", "secret", "password")  # of keys that hold a reference
DEFAULT_ACCOUNT = "default"  # of a platform: the account in the platform's own table

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Currency = Annotated[str, msgspec.Meta(pattern="^[A-Z]{3}$")]  # ISO 4217


class CrashRecovery(StrEnum):
    RESUME = "resume"
    SUSPEND = "suspend"


class SupervisorChoice(StrEnum):
    """Which supervisor starts the gateway again when it has ended."""

    AUTO = "auto"  # detected from the process itself
    SYSTEMD = "systemd"
    LAUNCHD = "launchd"
    S6 = "s6"
    CONTAINER = "container"
    NONE = "none"


STOP_PHASES_TIMEOUT = 25.0  # seconds of all phases of a stop but the drain, if each one hangs


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: Port = 8787
    allowed_hosts: tuple[str, ...] = ()  # names besides loopback that requests may be addressed to
    # Addresses or networks whose X-Forwarded-… headers are trusted.
    trusted_proxy: tuple[str, ...] = ()
    restart_drain_timeout: Seconds = 0
    park_timeout: Seconds = 10
    stop_timeout: Seconds = 25  # for the rest of a stop; what is left of it is for memory providers
    busy_mode: BusyMode = BusyMode.INTERRUPT
    crash_recovery: CrashRecovery = CrashRecovery.RESUME
    # For how long the port is kept for the next gateway if this one is killed; 0: not at all.
    hold_port: Seconds = 600
    supervisor: SupervisorChoice = SupervisorChoice.AUTO
    watch: bool = True  # changes of holdfast.toml or .env are applied automatically
    currency: Currency = "USD"  # of [prices]
    language: str = ""  # of bot texts if the platform reports none; "": English

    @property
    def longest_stop(self) -> float:
        """Seconds that a stop takes at most."""
        rest = max(self.stop_timeout, STOP_PHASES_TIMEOUT)
        return self.restart_drain_timeout + self.park_timeout + rest


class Provider(StrEnum):
    AUTO = "auto"  # a key in the environment, else a server on this machine, else the demo
    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    OPENROUTER = "openrouter"
    LOCAL = "local"
    DEMO = "demo"


# In this order: if no provider is named, the first one whose key is set answers.
KEY_VARIABLES: Mapping[Provider, str] = {
    Provider.ANTHROPIC: "ANTHROPIC_API_KEY",
    Provider.OPENAI: "OPENAI_API_KEY",
    Provider.OPENROUTER: "OPENROUTER_API_KEY",
}


class ApiMode(StrEnum):
    CHAT_COMPLETIONS = "chat_completions"
    RESPONSES = "responses"
    ANTHROPIC_MESSAGES = "anthropic_messages"


class VisionMode(StrEnum):
    """Whether a model is shown pictures."""

    AUTO = "auto"  # by its name
    YES = "yes"
    NO = "no"


class FallbackModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model to use when the first one fails for good."""

    provider: Provider
    name: str = ""
    api_mode: ApiMode | None = None
    base_url: str = ""
    api_key: str = ""
    allow_unencrypted: bool = False


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    provider: Provider = Provider.AUTO
    name: str = ""
    api_mode: ApiMode | None = None  # None: the provider's own
    base_url: str = ""  # "": the provider's own
    api_key: str = ""  # a reference: "env:NAME" or "file:path"
    allow_unencrypted: bool = False  # the key may go to another machine over http://
    fallbacks: tuple[FallbackModel, ...] = ()
    discover: tuple[str, ...] = LOCAL_SERVERS  # where "auto" looks for a server; []: nowhere
    connect_timeout: Seconds = 10
    first_token_timeout: Seconds = 120
    between_tokens_timeout: Seconds = 60
    whole_timeout: Seconds = 900
    retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = 4
    context_window: Annotated[int, msgspec.Meta(ge=0)] = 0  # tokens; 0: known by the name
    vision: VisionMode = VisionMode.AUTO


class AuxiliarySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[auxiliary]`: model calls outside of the conversation."""

    model: str = ""  # "": the model that answers
    titles: bool = True
    summaries: bool = True
    vision: bool = True
    timeout: Seconds = 120


class CompactionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[compaction]`: shares of the context window."""

    at: Annotated[float, msgspec.Meta(ge=0.1, le=0.95)] = 0.8
    keep: Annotated[float, msgspec.Meta(ge=0.01, le=0.5)] = 0.25


class Effort(StrEnum):
    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_steps: Count = 90
    reasoning: Effort = Effort.MEDIUM
    toolsets: tuple[str, ...] = TOOLSETS
    instructions: str = ""


class CacheSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_agents: Count = 128
    idle_ttl: Seconds = 3600
    max_mb: Count = 256


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[memory]`: memory providers, and how much they store."""

    providers: tuple[str, ...] = ("notes",)
    max_chars: Annotated[int, msgspec.Meta(ge=100, le=100_000)] = 4000
    prefetch_timeout: Seconds = 1
    end_after: Seconds = 86_400  # of idleness; then the end is reported to providers; 0: never


class DelegateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[delegate]`: how many subagents an agent may have, and how deeply they may be nested."""

    depth: Count = 2  # 1: subagents have no subagents of their own
    max_tasks: Count = 32  # of one call
    parallel: Count = 8  # of those at the same time; the others wait
    max_background: Count = 8  # of one conversation
    max_steps: Count = 50
    time_limit: Seconds = 3600  # until a subagent is stopped; 0: no limit


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[jobs]`: scheduled jobs."""

    time_zone: str = ""  # that job times are read in; "": that of the sessions
    max_per_person: Count = 50
    min_interval: Seconds = 60  # minimum between two due times of one job
    parallel: Count = 8  # runs at the same time; the others wait
    time_limit: Seconds = 3600  # of a run, if the job sets none; 0: no limit
    late_after: Seconds = 60  # a due time that is longer ago counts as missed


class SandboxMode(StrEnum):
    REQUIRED = "required"  # where no sandbox works, agents get no tools that run in one
    OFF = "off"


class NetworkMode(StrEnum):
    """What network a session's sandbox has."""

    PROXY = "proxy"  # its own loopback, and the egress proxy of the gateway
    INTERNET = "internet"  # its own, with a route to public addresses
    NONE = "none"  # its own loopback
    HOST = "host"  # that of the machine


class RunnerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[runner]`: the sandbox around a session's commands, and its limits."""

    sandbox: SandboxMode = SandboxMode.REQUIRED
    sandbox_off_as_root: bool = False  # as root, `sandbox = "off"` needs this, too
    network: NetworkMode = NetworkMode.PROXY
    command_timeout: Seconds = 600
    output_kb: Count = 32
    memory_mb: Count = 4096
    processes: Count = 256
    cpus: Annotated[float, msgspec.Meta(ge=0)] = 0  # of a session; 0: no limit
    file_mb: Count = 2048
    workspace_mb: Count = 10240
    workspace_files: Count = 250_000
    idle_timeout: Seconds = 3600


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sessions]`: who shares a conversation, and when a fresh one replaces it."""

    group_sessions_per_user: bool = True
    thread_sessions_per_user: bool = False
    reset: ResetMode = ResetMode.NONE
    idle_minutes: Minutes = 1440
    daily_hour: Hour = 4
    time_zone: str = ""  # "": this machine's
    rules: tuple[ResetRule, ...] = ()  # the first rule that applies to a chat decides


def route_of(source: Source, settings: SessionSettings) -> SessionKey:
    """The route of a message: which chat, thread and person share a session."""
    groups, threads = settings.group_sessions_per_user, settings.thread_sessions_per_user
    return build_session_key(source, groups, threads)


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[retention]`: how long old data is kept."""

    sessions_days: Annotated[int, msgspec.Meta(ge=0)] = 0  # since its last use; 0: forever
    # Platforms may send an event again for weeks; a forgotten one would count as new.
    inbox_days: Annotated[int, msgspec.Meta(ge=30)] = 90
    outbox_days: Annotated[int, msgspec.Meta(ge=1)] = 30
    audit_days: Annotated[int, msgspec.Meta(ge=0)] = 365  # 0: forever


class BackupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[backup]`: how often the gateway backs up its home automatically, and how many backups it
    keeps."""

    every_hours: Annotated[float, msgspec.Meta(ge=0)] = 24  # 0: never
    keep: Count = 7
    dir: str = ""  # from the home, unless it begins with / or ~; "": backups


class BrowserSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[browser]`: the browser tool, where it is installed."""

    chromium: str = ""  # a name or a path; "": the system's
    max_browsers: Count = 4  # open at a time; the least recently used one is closed
    idle_timeout: Seconds = 600
    action_timeout: Seconds = 30
    allow_private: bool = False  # pages of this machine and its network


class WebSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[web]`: the hosts that agents may reach with `fetch`, browsers and the egress proxy.

    A pattern is a host, or `*.example.org`: that domain and every host in it.
    """

    allow: tuple[str, ...] = ()  # (): every host with a public address
    deny: tuple[str, ...] = ()  # comes before `allow`


class SendSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[send]`: where agents may send messages besides the chat they work in."""

    allow: tuple[str, ...] = ()  # platform:chat, or platform:*; sent without asking a person


class ApprovalMode(StrEnum):
    """What happens to a command that is judged dangerous. Forbidden commands are always refused."""

    ASK = "ask"
    REFUSE = "refuse"  # without asking: for an unattended gateway
    OFF = "off"  # it runs


class ApprovalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[approvals]`: who is asked before a dangerous command runs, and for how long."""

    mode: ApprovalMode = ApprovalMode.ASK
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 3600
    # `requester`: only if they are named in `allow`, or paired. Operators may always answer.
    approvers: tuple[str, ...] = (REQUESTER,)
    # How long an answer applies that is not for once.
    session_hours: Annotated[float, msgspec.Meta(gt=0)] = 24
    always_days: Annotated[float, msgspec.Meta(gt=0)] = 30
    patterns: tuple[CommandPattern, ...] = ()  # rules of the operators, besides the built-in ones

    def expiry(self, scope: ApprovalScope, *, at: float) -> float:
        """When an answer of that scope, given now, stops to apply."""
        if scope is ApprovalScope.ALWAYS:
            return at + self.always_days * 86_400
        return at + self.session_hours * 3600


class AuditSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[audit]`: where the number and hash of the last audit row are sent."""

    syslog: str = ""  # udp://host:port or unix:///path; "": not sent
    webhook: str = ""  # "": not sent
    webhook_secret: str = ""  # signs each post, as a reference: "env:NAME" or "file:path"
    interval: Annotated[float, msgspec.Meta(ge=1)] = 300  # seconds between two heads


class PersonInjection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[injection.people."platform:account:user"]`: the policy for one person."""

    policy: TaintPolicy = TaintPolicy.ASK


class InjectionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[injection]`: what a conversation that contains external content may do without asking."""

    policy: TaintPolicy = TaintPolicy.ASK
    people: dict[str, PersonInjection] = {}  # by their ids; they count more than the account


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    level: LogLevel = LogLevel.INFO
    file_mb: Count = 10
    files: Annotated[int, msgspec.Meta(ge=0)] = 5


class OtelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[otel]`: exporting traces."""

    endpoint: str = ""  # of OTLP over HTTP; "": no traces
    header: str = "Authorization"  # by which the collector authenticates senders
    header_secret: str = ""  # its whole value, as a reference: "env:NAME" or "file:path"
    sample: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0  # the share of messages
    service: str = "holdfast"  # the name of this gateway in the collector


class GroupReplyMode(StrEnum):
    """Which messages in a group are answered."""

    ADDRESSED = "addressed"  # messages that name the account, reply to it, or are commands
    ALL = "all"


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[platforms.NAME.chats.ID]`: the settings of one chat."""

    answers: GroupReplyMode = GroupReplyMode.ADDRESSED
    allow: tuple[str, ...] = ()  # besides those of the account, and only there
    bots: Annotated[int, msgspec.Meta(ge=0)] = 0  # how many messages of bots in a row are answered
    quiet: bool | None = None  # None: as its account


class PlatformSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[platforms.NAME]`: the keys of every account; a plugin adds its own keys.

    The table itself is the account `default`. `accounts` has further ones, which inherit nothing: a
    person who is allowed at one account is not allowed at another.
    """

    enabled: bool = True
    allow: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()  # who may also operate the gateway from there
    pairing: bool = True  # unknown people who write privately get a pairing code
    chats: dict[str, ChatSettings] = {}  # by their ids
    home: str = ""  # the chat that is notified about the gateway itself; "": set by /sethome
    restart_notices: bool = True  # its chats are notified of stops and restarts
    busy_mode: BusyMode | None = None  # None: the gateway's
    stream: bool = True  # replies are shown while they are written, if the platform supports edits
    progress: bool = True  # a streamed reply shows the running tools
    quiet: bool = False  # its chats get answers only
    injection: TaintPolicy | None = None  # None: as in [injection]
    files: tuple[str, ...] = ("*",)  # accepted files: "*", or ".csv", "image/*"; []: none
    # Characters of an attached document's text that the model is shown at once; 0: none.
    file_chars: Annotated[int, msgspec.Meta(ge=0, le=200_000)] = 20_000
    accounts: dict[str, "PlatformSettings"] = {}  # empty in a nested account


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    gateway: GatewaySettings = GatewaySettings()
    model: ModelSettings = ModelSettings()
    auxiliary: AuxiliarySettings = AuxiliarySettings()
    compaction: CompactionSettings = CompactionSettings()
    agent: AgentSettings = AgentSettings()
    cache: CacheSettings = CacheSettings()
    delegate: DelegateSettings = DelegateSettings()
    jobs: JobSettings = JobSettings()
    memory: MemorySettings = MemorySettings()
    runner: RunnerSettings = RunnerSettings()
    sessions: SessionSettings = SessionSettings()
    retention: RetentionSettings = RetentionSettings()
    backup: BackupSettings = BackupSettings()
    browser: BrowserSettings = BrowserSettings()
    web: WebSettings = WebSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    injection: InjectionSettings = InjectionSettings()
    send: SendSettings = SendSettings()
    audit: AuditSettings = AuditSettings()
    log: LogSettings = LogSettings()
    otel: OtelSettings = OtelSettings()
    prices: dict[str, Price] = {}  # by model; "name-*": all models whose names begin so
    platforms: dict[str, PlatformSettings] = {}

    def account(self, platform: str, account: str) -> PlatformSettings | None:
        """The settings of one account. None if it has none, so that no one is allowed there."""
        settings = self.platforms.get(platform)
        if settings is None or account == DEFAULT_ACCOUNT:
            return settings
        return settings.accounts.get(account)

    def taint_policy(self, platform: str, account: str, person: str) -> TaintPolicy:
        """The policy for a tainted conversation of a person at an account."""
        if person in self.injection.people:
            return self.injection.people[person].policy
        settings = self.account(platform, account)
        if settings is not None and settings.injection is not None:
            return settings.injection
        return self.injection.policy

    def all_accounts(self) -> Iterator[tuple[str, str, PlatformSettings]]:
        """Each account with its settings; none inherits from another."""
        for name, platform in self.platforms.items():
            yield name, DEFAULT_ACCOUNT, platform
            for account, each in platform.accounts.items():
                yield name, account, each


def account_table(platform: str, account: str) -> str:
    """The name of an account's table in holdfast.toml."""
    table = f"platforms.{platform}"
    return table if account == DEFAULT_ACCOUNT else f"{table}.accounts.{account}"


def is_secret_key(key: str) -> bool:
    """Whether a key with that name holds a reference to a secret, and never a value."""
    return key.endswith(SECRET_ENDINGS)
