"""Linechat as a door: what can be set about an account, and how it is opened."""

from holdfast.core.config.settings import PlatformSettings, Port
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import PlatformPlugin, PluginContext, SetupQuestion


class LinechatSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference: the name of the key says that it holds a secret
    port: Port = 4040

    def __post_init__(self) -> None:
        if self.enabled and not self.token:
            raise ValueError('token is missing: write token = "env:LINECHAT_TOKEN"')


def _open(opening: PluginContext[LinechatSettings]) -> Platform:
    from linechat.platform import Linechat  # noqa: PLC0415 - only where an account is enabled

    return Linechat(opening.secrets["token"], opening.account, opening.settings.port)


DOOR = PlatformPlugin(
    name="linechat",
    settings=LinechatSettings,
    open=_open,
    guide="Start a server (python -m linechat_server): it prints its port and the bot's token.",
    questions=(SetupQuestion(key="token", label="The token", variable="LINECHAT_TOKEN"),),
    people="their name in the chat",
)
