"""Tests the settings of webhooks and their error messages."""

from functools import partial
from pathlib import Path

import pytest
from tests.platforms.webhook.builders import OURS
from tests.platforms.webhook.fake_receiver import FakeReceiver
from tests.support.platform_gateway import open_accounts, write_config

from holdfast.config import Config, ConfigError, list_keys, load
from holdfast.config.editor import ConfigEdit, changed_keys, edit_keys
from holdfast.core.config.versions import ConfigSource, ConfigVersion
from holdfast.core.errors import SendError
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.secrets import Secret
from holdfast.gateway.redaction import Redaction
from holdfast.platforms.webhook.plugin import PLUGIN, WebhookSettings
from holdfast.server.api.views.config import version_detail
from holdfast.system.clock import SystemClock

HOOK = '[platforms.webhook.hooks.build]\nsecret = "env:HOOK"\n'
ENVIRON = {"HOOK": "a secret of the hook: 5be1f09c", "OURS": "a secret of ours: 1f09c5be77"}


def loaded(tmp_path: Path, text: str) -> Config:
    return load(write_config(tmp_path, text), ENVIRON)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[platforms.webhook]\n", "neither a hook nor a url"),
        ("[platforms.webhook.hooks.build]\n", "hooks.build: secret is missing"),
        ('[platforms.webhook.hooks."a/b"]\nsecret = "env:HOOK"\n', "cannot be the name of a hook"),
        (HOOK + 'template = "{a"\n', "template is not a valid template: unmatched brace at '{a'"),
        (HOOK + 'thread = "{}"\n', "thread is not a valid template"),
        (HOOK + 'id = "{@X-GitHub-Delivery}"\n', "id uses a header, which is not signed"),
        (HOOK + 'template = "{@Authorization}"\n', "uses the header Authorization"),
        (HOOK + 'template = "{@x-hub-signature-256}"\n', "uses the header x-hub-signature-256"),
        (HOOK + 'scheme = "stripe"\nevents = ["a"]\n', "events needs event"),
        (HOOK + 'scheme = "standard"\nheader = "X-Signed"\n', "header must end with"),
        (HOOK + 'platform = "web"\nchat = "1"\nuser = "1"\n', "platform may not be web"),
        (HOOK + 'platform = "telegram"\nchat = "1"\n', "platform needs chat and user"),
        (HOOK + 'toolsets = ["shell"]\n', "toolsets has the unknown 'shell'"),
        (HOOK + 'toolsets = ["web", "delegate"]\n', "toolsets may not have delegate"),
        (HOOK + 'toolsets = ["web"]\ncommands = true\n', "exclude each other"),
        (HOOK + 'scheme = "gitlab"\n', '"github" or "slack"'),
        ('[platforms.webhook]\nurl = "ftp://example.org/"\n', "url must begin with https://"),
        ('[platforms.webhook]\nurl = "http://example.org/"\n', "url must begin with https://"),
        ('[platforms.webhook]\nurl = "https://10.0.0.1/"\n', "allow_private = true"),
        ('[platforms.webhook]\nurl = "https://[::ffff:127.0.0.1]/"\n', "allow_private = true"),
        ('[platforms.webhook]\nurl = "https://localhost/"\n', "allow_private = true"),
        ('[platforms.webhook]\nurl = "https://a.LOCALHOST./"\n', "allow_private = true"),
        (HOOK.replace("env:HOOK", "hunter2hunter2"), "a secret itself"),
    ],
)
def test_an_invalid_setting_is_refused_with_a_remedy(
    tmp_path: Path, text: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text)
    assert expected in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_configured_hook_is_allowed(tmp_path: Path) -> None:
    """Law 12: its table is the permission, and only for the identity that it speaks as."""
    text = f"""[platforms.webhook]
allow = ["ann"]
{HOOK}
[platforms.webhook.hooks.other]
secret = "env:HOOK"
user = "robot"
[platforms.webhook.hooks.elsewhere]
secret = "env:HOOK"
platform = "telegram"
chat = "12"
user = "12"
"""
    settings = loaded(tmp_path, text).settings.platforms["webhook"]
    assert settings.allow == ("ann", "build", "robot")


def test_each_account_has_hooks_of_its_own_with_the_secrets_of_its_table(tmp_path: Path) -> None:
    text = HOOK + (
        '[platforms.webhook.accounts.work]\nurl = "https://example.org/"\nsecret = "env:OURS"\n'
        '[platforms.webhook.accounts.work.hooks.deploy]\nsecret = "env:OURS"\n'
    )
    platforms = open_accounts(tmp_path, text, ENVIRON)
    paths = [route.path for platform in platforms for route in platform.routes()]  # type: ignore[attr-defined]
    assert paths == ["/hooks/webhook/default/build", "/hooks/webhook/work/deploy"]
    assert [platform.capabilities.fetchable for platform in platforms] == [True, False]


def test_the_password_in_a_url_is_redacted_and_still_used(tmp_path: Path) -> None:
    """Law 13: neither by `config show`, an error, a difference nor a log, and it is not lost by
    saving what was shown."""
    key, url = "platforms.webhook.url", "https://me:hunter2hunter2@example.org/in"
    hidden = "https://me:***@example.org/in"
    text = f'[platforms.webhook]\nurl = "{url}"\n'
    config = loaded(tmp_path, text)
    assert config.settings.account("webhook", "default").url == url  # type: ignore[union-attr]
    assert {each.key: each.value for each in list_keys(config)}[key] == hidden
    redact = Redaction(config.secrets.values())
    assert "hunter2" not in redact("POST of hunter2hunter2 at example.org failed")
    version = ConfigVersion(
        number=1, at=1.0, by="start", source=ConfigSource.START, text=text, signature=""
    )
    view = version_detail(version, None, active=1)
    assert hidden in view.text and "hunter2" not in f"{view.text}{view.diff}"
    other = text.replace("hunter2hunter2", "hunter3hunter3")
    assert changed_keys(text, other) == (key,)

    def saved(value: object, key: str = key) -> ConfigEdit:
        check = partial(load, config.home, ENVIRON)
        return edit_keys(config.home, values={key: value}, check=lambda text: check(text=text))

    with pytest.raises(ConfigError, match="password in this address is hidden"):
        saved(hidden)
    with pytest.raises(ConfigError, match=r"webhook\.url: .* password in this address is hidden"):
        saved({"url": hidden}, "platforms.webhook")
    with pytest.raises(ConfigError) as refused:
        saved(url.replace("https:", "ftp:"))
    assert "ftp://me:***@example.org" in str(refused.value)
    [change] = saved(url.replace("/in", "/there")).changes
    assert (change.old, change.new) == (hidden, "https://me:***@example.org/there")


async def test_the_receiver_is_checked_before_an_account_is_saved(
    tmp_path: Path, receiver: FakeReceiver, url: str
) -> None:
    """`holdfast setup` tries what it was told, and says whom without a password."""
    url = url.replace("://", "://me:hunter2hunter2@")

    def opening(secret: str) -> PluginContext[WebhookSettings]:
        return PluginContext(
            account="default",
            settings=WebhookSettings(url=url, secret="env:OURS", allow_private=True),
            secrets={"secret": Secret(secret)},
            folder=tmp_path,
            clock=SystemClock(),
            new_id=lambda prefix: prefix,
        )

    assert PLUGIN.check is not None
    assert (await PLUGIN.check(opening(OURS))).name == url.replace("hunter2hunter2", "***")
    with pytest.raises(SendError, match="does not accept our secret"):
        await PLUGIN.check(opening("another secret"))
    assert len(receiver.pings) == 1
